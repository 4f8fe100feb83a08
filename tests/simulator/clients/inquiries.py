"""Requests that read, or that must be refused, and what their answers must say.

A refusal changes nothing, which the other parts see: most requests name what is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.messages.describe_topic_partitions import Cursor
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.simulator.clients.requests import SET
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tests.simulator.model.topics import TopicModel

Wanted = dict[tuple[Any, ...], set[int]]
"""The things that an answer must have, each once, with the errors that it may have."""
Asked = tuple[Any, Wanted | None]
"""The row of a request, and what its answer must have; None if that depends."""

CLUSTER, GROUP, TOPIC, ID = "cluster", "group", "topic", "transactional id"
_REFUSALS: Final = {TOPIC: 29, GROUP: 30, CLUSTER: 31, ID: 53}
OWN: Final = "nuts"
"""The topic that these clients alone use; the first of them to ask has it created."""
_NOWHERE, _BAD, _OFFSETS = "nowhere", "no/good", "__consumer_offsets"
_QUORUM: Final = "__cluster_metadata"
_FAR: Final = 99
_NO_ID: Final = bytes(16)
_NO_PRODUCER_ID: Final = 1 << 40
_GHOST: Final = "ghost"
_COORDINATOR: Final = (14, 15, 16)
_UNKNOWN, _BAD_TOPIC, _FORBIDDEN, _BAD_REQUEST, _BAD_VERSION = 3, 17, 29, 42, 35
_NO_MEMBER, _NO_GROUP, _NO_PRODUCER, _NO_TRANSACTION = 25, 69, 49, 105
_NO_ACLS, _EARLY, _NO_LOGIN = 54, 89, 34


@dataclass
class Lot:
    """The names, numbers and rights of one request, drawn by a number.

    ``may`` tells whether the client has the rights to a kind of thing; None if that is not sure.
    ``has_sessions`` is true if another part judges fetch sessions, in whose room no other may be.
    """

    number: int
    version: int
    topics: Mapping[str, TopicModel]
    may: Callable[[str, str], bool | None]
    authorizes: bool
    has_sessions: bool

    def __post_init__(self) -> None:
        rng = self.rng = Random(self.number)
        self.some = rng.choice(list(self.topics))
        self.names = rng.sample([*self.topics, OWN, _NOWHERE, _BAD, _OFFSETS], rng.randrange(1, 5))
        self.places = [(name, rng.sample((0, _FAR), rng.choice((1, 2)))) for name in self.names]
        self.groups = rng.sample(("ants", "larks", "geese", _GHOST), rng.randrange(1, 4))
        self.ids = rng.sample(("id 0", "id 1", _GHOST), rng.randrange(1, 3))
        self.is_trial = rng.random() < 0.5

    def allow(self, kind: str, name: str, *codes: int) -> set[int]:
        """Return the codes of something that the client may have no right to."""
        may = self.may(kind, name)
        refused = set() if may else {_REFUSALS[kind]}
        return refused if may is False else {*codes, *refused}

    def each(self, kind: str, names: Sequence[str], *codes: int) -> Wanted:
        """Return the codes of some things that are alike."""
        return {(name,): self.allow(kind, name, *codes) for name in names}

    def topic(
        self, name: str, there: Sequence[int], missing: int = _UNKNOWN, bad: int = _UNKNOWN
    ) -> set[int]:
        """Return the codes of a topic: those of one that exists, and of one that does not."""
        if name == _BAD:
            return self.allow(TOPIC, name, bad)
        model = self.topics.get(name)
        if name == _NOWHERE or (model is not None and model.presence is Presence.ABSENT):
            codes = {missing} | (set(there) if model is not None and model.is_doubtful else set())
        elif model is not None and model.presence is Presence.PRESENT:
            codes = set(there)
        else:
            codes = {missing, *there}
        return self.allow(TOPIC, name, *codes)

    def parts(self, *there: int, bad: int = _UNKNOWN) -> Wanted:
        """Return the codes of all partitions: those of one that exists, or that it does not."""
        return {
            (name, index): self.topic(name, there if index == 0 else (_UNKNOWN,), bad=bad)
            for name, indexes in self.places
            for index in indexes
        }

    def rows(self, *fields: Any) -> list[Any]:
        """Return the rows of all partitions, alike but for their numbers."""
        return [(name, [(index, *fields) for index in each]) for name, each in self.places]

    def known_ids(self) -> dict[bytes, set[int]]:
        """Return the ids of topics, present ones and old ones, with their codes."""
        found = {b"7" * 16: {100}}
        for topic in self.topics.values():
            old = [each for each in topic.old_ids if each not in {topic.topic_id, _NO_ID}][:2]
            found |= {each: {100} for each in old}
            if topic.topic_id != _NO_ID:
                is_there = topic.presence is Presence.PRESENT
                codes = {0} if is_there else {100} if topic.topic_id in topic.old_ids else {0, 100}
                found[topic.topic_id] = self.allow(TOPIC, topic.name, *codes)
        return found


INQUIRIES: Final[dict[str, Inquiry]] = {}
"""The kinds of requests by their names, in a fixed order."""


class Inquiry(NamedTuple):
    """A kind of request. ``path`` leads through the answer to what it says of each thing."""

    key: int
    path: str
    make: Callable[[Lot], Asked]
    first: int = 0
    last: int = 99
    """The oldest and the newest version in which it is asked."""


def _asks(
    key: int, path: str = "", *, first: int = 0, last: int = 99
) -> Callable[[Callable[[Lot], Asked]], Callable[[Lot], Asked]]:
    """Put what makes a request, and says what its answer must have, into the table."""

    def note(make: Callable[[Lot], Asked]) -> Callable[[Lot], Asked]:
        INQUIRIES[make.__name__[1:]] = Inquiry(key, path, make, first, last)
        return make

    return note


def read(answer: Any, path: str) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Return the things of an answer with their errors; ``#`` stands for the place of a row."""
    if not path:
        for name in ("error_code", "partition_error_code"):
            if hasattr(answer, name):
                yield (), getattr(answer, name)
        return
    field, keys, *rest = path.split("/", 2)
    for at, each in enumerate(getattr(answer, field)):
        own = [at if key == "#" else getattr(each, key) for key in keys.split("+")]
        for thing, code in read(each, rest[0] if rest else ""):
            yield (*own, *thing), code


def _alone(lot: Lot, *codes: int, kind: str = CLUSTER) -> Wanted:
    """Return the codes of an answer that has one error for all."""
    return {(): lot.allow(kind, "", *codes)}


def _alike(things: Iterable[tuple[Any, ...]], *codes: int) -> Wanted:
    """Return the same codes for things."""
    return {each: {*codes} for each in things}


def _of_group(lot: Lot, *codes: int) -> Wanted:
    """Return the codes of an answer of a group's coordinator that has one error for all."""
    return _alone(lot, *codes, *_COORDINATOR, kind=GROUP)


def _of_cluster(lot: Lot, things: Wanted) -> Wanted | None:
    """Return the codes of things for which a right to the cluster is needed."""
    may = lot.may(CLUSTER, "")
    return None if may is None else things if may else {(): {_REFUSALS[CLUSTER]}}


def _without_topics(lot: Lot, things: Wanted) -> Wanted | None:
    """Return the codes of partitions for which rights to the cluster count, not to topics."""
    may = lot.may(CLUSTER, "")
    return None if may is None else things if may else _alike(things, _REFUSALS[CLUSTER])


# Reads.


@_asks(75, "topics/name")
def _pages(lot: Lot) -> Asked:
    cursor = lot.rng.choice((None, None, (lot.names[0], 0), (_NOWHERE, -1)))
    limit = lot.rng.choice((1, 2, 2000))
    names = lot.rng.choice((lot.names, lot.names, []))
    row = ([(name,) for name in names], limit, cursor and Cursor(*cursor))
    if cursor or limit < len(names) + 8 or not names:
        return row, None
    return row, {(name,): lot.topic(name, [0], bad=_BAD_TOPIC) for name in names}


@_asks(3, "topics/name", first=4)
def _metadata(lot: Lot) -> Asked:
    row = {
        "topics": [{"name": name} for name in lot.names],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": lot.version >= 8 and lot.is_trial,
    }
    return row, {(name,): lot.topic(name, [0], bad=_BAD_TOPIC) for name in lot.names}


@_asks(3, "topics/name")
def _wild_metadata(lot: Lot) -> Asked:
    names = {OWN: [0], "nu.ts": [0, _BAD_TOPIC], "nu_ts": [0, _BAD_TOPIC], _BAD: [_BAD_TOPIC]}
    row = {"topics": [{"name": name} for name in names]}
    return row, {(name,): lot.allow(TOPIC, name, *codes) for name, codes in names.items()}


@_asks(3, "topics/topic_id", first=10)
def _metadata_by_id(lot: Lot) -> Asked:
    ids = lot.known_ids()
    row = {"topics": [{"topic_id": each, "name": None} for each in ids]}
    if lot.version < 12:
        return row, _alike(((each,) for each in ids), _BAD_REQUEST)
    return row, {(each,): codes for each, codes in ids.items()}


@_asks(16)
def _list_groups(lot: Lot) -> Asked:
    states = lot.rng.choice((["Empty", "stable"], ["no state"], []))
    types = lot.rng.choice((["classic"], ["Consumer"], []))
    row = {
        "states_filter": states if lot.version >= 4 else [],
        "types_filter": types if lot.version >= 5 else [],
    }
    return row, {(): {0, *_COORDINATOR}}


@_asks(15, "groups/group_id")
def _describe_groups(lot: Lot) -> Asked:
    codes = (0, _NO_GROUP, *_COORDINATOR)
    row = {"groups": lot.groups, "include_authorized_operations": lot.version >= 3 and lot.is_trial}
    return row, lot.each(GROUP, lot.groups, *codes)


@_asks(69, "groups/group_id")
def _describe_new_groups(lot: Lot) -> Asked:
    names = [*lot.groups, ""]
    wanted = lot.each(GROUP, names, 0, _NO_GROUP, 29, *_COORDINATOR)
    return (names, lot.is_trial), wanted | {("",): lot.allow(GROUP, "", 24)}


@_asks(23, "topics/topic/partitions/partition")
def _epoch_ends(lot: Lot) -> Asked:
    told = lot.rng.choice((-1, 0, 5))
    return {"topics": lot.rows(told, 0)}, lot.parts(75 if told == 5 else 0)


@_asks(2, "topics/name/partitions/partition_index")
def _offsets(lot: Lot) -> Asked:
    first = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -9: 99, 5: 1}
    stamp, told = lot.rng.choice(list(first)), lot.rng.choice((-1, -1, 0, 5))
    wanted = lot.parts(75 if told == 5 and lot.version >= 4 else 0)
    if lot.version < first[stamp]:
        wanted = {each: lot.allow(TOPIC, each[0], _BAD_VERSION) for each in wanted}
    return (-1, 0, lot.rows(told, stamp)), wanted


@_asks(2, "topics/name/partitions/partition_index")
def _offsets_twice(lot: Lot) -> Asked:
    return (-1, 0, [(lot.some, [(0, -1, -1), (0, -1, -2)])]), {(lot.some, 0): {_BAD_REQUEST}}


@_asks(60)
def _cluster(lot: Lot) -> Asked:
    kind = lot.rng.choice((1, 2, 3)) if lot.version else 1
    return (lot.is_trial, kind), {(): {(0, 114, 115)[kind - 1]}}


@_asks(55, "topics/topic_name/partitions/partition_index")
def _quorum(lot: Lot) -> Asked:
    name, index = lot.rng.choice(((_QUORUM, 0), (_QUORUM, 1), (_NOWHERE, 0)))
    code = 0 if (name, index) == (_QUORUM, 0) else _UNKNOWN
    return ([(name, [(index,)])],), _of_cluster(lot, {(name, index): {code}})


@_asks(18)
def _versions(lot: Lot) -> Asked:
    name, code = lot.rng.choice((("simulated", 0), ("no name!", _BAD_REQUEST)))
    return (name, "1.0") if lot.version >= 3 else (), {(): {code if lot.version >= 3 else 0}}


@_asks(74)
def _resources(lot: Lot) -> Asked:
    kinds = lot.rng.choice(([], [2, 4, 8, 16, 32], [_FAR])) if lot.version else []
    return (kinds,), _alone(lot, _BAD_VERSION if kinds == [_FAR] else 0)


@_asks(32, "results/resource_type+resource_name")
def _configs(lot: Lot) -> Asked:
    things: Wanted = {
        (2, name): lot.topic(name, [0], bad=_BAD_TOPIC) for name in lot.names if name != _OFFSETS
    }
    for kind, name, code in ((4, "1", 0), (4, "", 0), (4, "99", 42), (8, "1", 0), (16, "", 42)):
        things[kind, name] = lot.allow(CLUSTER, "", code)
    things[32, ""] = lot.allow(GROUP, "", _BAD_REQUEST)
    wanted = dict(lot.rng.sample(list(things.items()), 4))
    row = [(*thing, None) for thing in wanted]
    if lot.rng.random() < 0.1:  # of which no right is known, so that nothing is answered
        row.append((_FAR, "x", None))
        wanted = _alike([*wanted, (_FAR, "x")], _BAD_REQUEST)
    return (row, lot.is_trial), wanted


@_asks(35)
def _log_dirs(lot: Lot) -> Asked:
    wanted = _alone(lot, 0) if lot.version >= 3 else {(): {0}}
    return (lot.rng.choice((lot.places, None)),), wanted


@_asks(43, "replica_election_results/topic/partition_result/partition_id")
def _elections(lot: Lot) -> Asked:
    kind = lot.rng.choice((0, 1, 5)) if lot.version else 0
    things = lot.parts(84)
    bad = _alike(things, _BAD_REQUEST)
    return (kind, lot.places), _without_topics(lot, bad if kind == 5 else things)


@_asks(45, "responses/name/partitions/partition_index")
def _reassignments(lot: Lot) -> Asked:
    replicas, code = lot.rng.choice((([1], 0), ([_FAR], 39), (None, 85), ([], 39)))
    return {"topics": lot.rows(replicas)}, _without_topics(lot, lot.parts(code))


@_asks(61, "topics/name/partitions/partition_index")
def _producers(lot: Lot) -> Asked:
    return (lot.places,), lot.parts(0, bad=_BAD_TOPIC)


@_asks(65, "transaction_states/transactional_id")
def _transactions(lot: Lot) -> Asked:
    wanted = lot.each(ID, lot.ids, 0, _NO_TRANSACTION, *_COORDINATOR)
    wanted["",] = lot.allow(ID, "", _BAD_REQUEST, *_COORDINATOR)
    return ([*lot.ids, ""],), wanted


@_asks(66)
def _list_transactions(lot: Lot) -> Asked:
    pattern, code = lot.rng.choice(((None, 0), ("id.*", 0), ("(", 128)))
    row = {
        "state_filters": lot.rng.choice(([], ["Ongoing", "no state"])),
        "producer_id_filters": lot.rng.choice(([], [0, 1])),
        "duration_filter": 5 if lot.version and lot.is_trial else -1,
        "transactional_id_pattern": pattern if lot.version >= 2 else None,
    }
    return row, {(): {code if lot.version >= 2 else 0, *_COORDINATOR}}


@_asks(48)
def _quotas(lot: Lot) -> Asked:
    rows: list[tuple[Any, int]] = [
        ([("user", 0, "ann")], 0),
        ([("user", 1, None), ("client-id", 2, None)], 0),
        ([("", 0, "ann")], _BAD_REQUEST),
        ([("user", 0, "ann"), ("user", 0, "bob")], _BAD_REQUEST),
        ([("moon", 0, "x")], _BAD_VERSION),
        ([("user", 9, None)], _BAD_REQUEST),
        ([("user", 0, None)], _BAD_REQUEST),
        ([("user", 2, "ann")], _BAD_REQUEST),
        ([("user", 0, "ann"), ("ip", 0, "10.0.0.1")], _BAD_REQUEST),
    ]
    row, code = lot.rng.choice(rows)
    return (row, lot.is_trial), _alone(lot, code)


@_asks(9, "groups/group_id")
def _fetch_offsets(lot: Lot) -> Asked:
    group = lot.groups[0]
    if lot.version >= 8:
        topics = {"topics": [(each, _NO_ID, [0]) for each in lot.names]} if lot.version < 10 else {}
        groups = [*lot.groups, ""]
        asked = [{"group_id": each, **topics} for each in groups]
        return {"groups": asked}, lot.each(GROUP, groups, 0, *_COORDINATOR)
    row = (group, [(name, [0]) for name in lot.names])
    return row, _of_group(lot, 0) if lot.version >= 2 else {(): {0}}


@_asks(10, "coordinators/key")
def _coordinators(lot: Lot) -> Asked:
    kind = lot.rng.choice((0, 1, 9)) if lot.version else 0
    of, keys = ((GROUP, lot.groups), (ID, lot.ids), (CLUSTER, [_GHOST]))[min(kind, 2)]
    codes = [_BAD_REQUEST] if kind == 9 else [0, *_COORDINATOR]
    wanted: Wanted = {
        (each,): {*codes} if kind == 9 else lot.allow(of, each, *codes) for each in keys
    }
    if lot.version < 4:
        return {"key": keys[0], "key_type": kind}, {(): wanted[keys[0],]}
    return {"key_type": kind, "coordinator_keys": keys}, wanted


@_asks(29)
def _rules(lot: Lot) -> Asked:
    kind = lot.rng.choice((1, 2, 3, 4, 77))
    wanted = _alone(lot, 0 if lot.authorizes else _NO_ACLS)
    return (kind, lot.rng.choice((None, "x")), 3, None, None, 1, 1), wanted


@_asks(50, "results/user")
def _credentials(lot: Lot) -> Asked:
    things = {("nobody",): {91}, ("twin",): {92}}
    return ([("nobody",), ("twin",), ("twin",)],), _of_cluster(lot, things)


@_asks(71)
def _subscriptions(lot: Lot) -> Asked:
    return (lot.rng.choice((_NO_ID, b"7" * 16)),), {(): {0, _EARLY}}


@_asks(72)
def _push(lot: Lot) -> Asked:
    instance, code = lot.rng.choice(((_NO_ID, _BAD_REQUEST), (b"7" * 16, 117)))
    return (instance, 5), {(): {code} if code == _BAD_REQUEST else {code, _EARLY}}


# Refusals.


@_asks(19, "topics/name")
def _create(lot: Lot) -> Asked:
    rows: list[tuple[Any, int]] = [
        (("none", 0, 1), 37),
        (("many", 1, 2), 38),
        ((_BAD, 1, 1), _BAD_TOPIC),
        ((_QUORUM, 1, 1), _BAD_REQUEST),
        (("twice", 1, 1), _BAD_REQUEST),
        (("odd", 1, 1, (), [("no.such.setting", "1")]), 40),
        (("void", 1, 1, (), [("segment.bytes", None)]), 40),
        (("both", 1, 1, [(0, [1])]), _BAD_REQUEST),
        (("gap", -1, -1, [(0, [1]), (2, [1])]), 39),
        (("far", -1, -1, [(0, [_FAR])]), 39),
        (("trial", 2, 1), 0),
        (("placed", -1, -1, [(0, [1])]), 0),
    ]
    rows = lot.rng.sample(rows, 4)
    asked = [row for row, _ in rows]
    asked += [each for each in asked if each[0] == "twice"]
    wanted = {(row[0],): {code} for row, code in rows}
    if lot.topic(lot.some, [36]) == {36}:
        asked.append((lot.some, 1, 1))
        wanted[lot.some,] = {36}
    return (asked, 30_000, True), wanted


@_asks(20, "responses/name+topic_id")
def _drop(lot: Lot) -> Asked:
    if lot.version >= 6:
        odd = {
            (_NOWHERE, _NO_ID): _UNKNOWN,
            (None, b"7" * 16): 100,
            (None, _NO_ID): _BAD_REQUEST,
            (lot.some, b"8" * 16): _BAD_REQUEST,
            ("twice", _NO_ID): _BAD_REQUEST,
        }
        return {"topics": [*odd, ("twice", _NO_ID)]}, {each: {odd[each]} for each in odd}
    names = lot.rng.sample((_NOWHERE, _BAD, "twice"), 2)
    again = [name for name in names if name == "twice"]
    wanted = {(each, _NO_ID): {_BAD_REQUEST if each in again else _UNKNOWN} for each in names}
    return {"topic_names": names + again}, wanted


@_asks(37, "results/name")
def _widen(lot: Lot) -> Asked:
    last, code = ((lot.some, 9, [([1],)]), 39) if lot.is_trial else ((lot.some, 1), 37)
    rows = [(_NOWHERE, 5), ("twice", 5), ("twice", 5), last]
    wanted = {(_NOWHERE,): {_UNKNOWN}, ("twice",): {_BAD_REQUEST}}
    wanted[lot.some,] = lot.topic(lot.some, [code])
    return (rows, 30_000, lot.is_trial), wanted


@_asks(21, "topics/name/partitions/partition_index")
def _cut(lot: Lot) -> Asked:
    things = lot.parts(1)
    codes = lot.allow(TOPIC, _OFFSETS, _UNKNOWN, _BAD_TOPIC)
    things |= {each: codes for each in things if each[0] == _OFFSETS}
    return (lot.rows(1 << 40),), things


def _settings(lot: Lot, *, replaces: bool) -> Asked:
    key = ("retention.ms", "5000") if replaces else ("retention.ms", SET, "5000")
    level = ("root", "INFO") if replaces else ("root", SET, "INFO")
    things: Wanted = {
        (2, _NOWHERE): lot.topic(_NOWHERE, [0]),
        (2, lot.some): lot.topic(lot.some, [0]),
        (2, ""): {_BAD_REQUEST},
        (4, "99"): lot.allow(CLUSTER, "", _BAD_REQUEST),
        (8, "1"): {_BAD_REQUEST} if replaces else lot.allow(CLUSTER, "", 0),
        (16, ""): lot.allow(CLUSTER, "", _BAD_REQUEST, 40),
        (16, "m"): lot.allow(CLUSTER, "", _BAD_REQUEST, 40),
        (32, ""): lot.allow(GROUP, "", _BAD_REQUEST, 40),
        (32, "g"): lot.allow(GROUP, "g", 40, _BAD_REQUEST),
        (_FAR, "x"): {_BAD_REQUEST},
    }
    some = lot.rng.sample(list(things.items()), 4)
    some += [((2, "twice"), {_BAD_REQUEST})] * 2
    rows = [(*thing, [level if thing[0] == 8 else key]) for thing, _ in some]
    return (rows, True), {(place,): codes for place, (_, codes) in enumerate(some)}


INQUIRIES["alter"] = Inquiry(44, "responses/#", partial(_settings, replaces=False))
INQUIRIES["replace"] = Inquiry(33, "responses/#", partial(_settings, replaces=True))


@_asks(49, "entries/#")
def _limit(lot: Lot) -> Asked:
    twice = [("user", "twice")], [("producer_byte_rate", 5.0, False)]
    keys = [("user", "u")], [("producer_byte_rate", 5.0, False), ("producer_byte_rate", 6.0, False)]
    odd = [("user", "u2")], [("no_such_rate", 5.0, False)]
    may = lot.may(CLUSTER, "")
    codes = lot.allow(CLUSTER, "", _BAD_REQUEST)
    wanted = {(place,): codes for place in range(3 if may else 4)}
    return ([twice, keys, odd, twice], lot.is_trial), None if may is None else wanted


@_asks(51, "results/user")
def _upsert(lot: Lot) -> Asked:
    rows = {
        "": (1, 4096, b"salt", 93),
        "odd": (9, 4096, b"salt", 33),
        "slow": (1, 99_999_999, b"salt", 93),
        "plain": (1, 4096, b"", 93),
        "twice": (1, 4096, b"salt", 92),
    }
    new = [(name, kind, times, salt, bytes(32)) for name, (kind, times, salt, _) in rows.items()]
    wanted = {(name,): lot.allow(CLUSTER, "", code) for name, (*_, code) in rows.items()}
    wanted["gone",] = lot.allow(CLUSTER, "", 91)
    return ([("gone", 1)], [*new, new[-1]]), wanted


@_asks(30, "results/#")
def _make_rules(lot: Lot) -> Asked:
    rows = [
        (4, "moon", 3, "User:x", "*", 2, 3),
        (2, "", 3, "User:x", "*", 2, 3),
        (2, "x", 3, "nobody", "*", 2, 3),
        (2, "x", 3, "User:x", "*", 77, 3),
    ]
    rows = lot.rng.sample(rows, 2)
    code = _BAD_REQUEST if lot.authorizes else _NO_ACLS
    return (rows,), {(place,): lot.allow(CLUSTER, "", code) for place in range(2)}


@_asks(31, "filter_results/#")
def _drop_rules(lot: Lot) -> Asked:
    code = 0 if lot.authorizes else _NO_ACLS
    rows = [(2, "no rule", 3, None, None, 1, 1), (77, "x", 3, None, None, 1, 1)]
    wanted = {(0,): lot.allow(CLUSTER, "", code), (1,): lot.allow(CLUSTER, "", code, 42)}
    return (rows,), wanted


@_asks(57, first=1)
def _features(lot: Lot) -> Asked:
    rows = [
        ("no.such.feature", 1, 1, 95),
        ("metadata.version", 20, 2, 96),
        ("transaction.version", 9, 1, 95),
        ("group.version", 0, 1, 95),
        ("group.version", 0, 9, 95),
        ("group.version", 1, 1, 0),
    ]
    name, level, way, code = lot.rng.choice(rows)
    row = {"feature": name, "max_version_level": level, "upgrade_type": way}
    return (30_000, [row], True), _alone(lot, code)


@_asks(47)
def _forget_offsets(lot: Lot) -> Asked:
    return (_GHOST, [(lot.some, [(0,)])]), _of_group(lot, _NO_GROUP)


@_asks(42, "results/group_id")
def _drop_groups(lot: Lot) -> Asked:
    wanted = lot.each(GROUP, [_GHOST, ""], _NO_GROUP, 24, *_COORDINATOR)
    return ([_GHOST, ""],), wanted


@_asks(13)
def _leave(lot: Lot) -> Asked:
    group = lot.groups[0]
    if lot.version < 3:
        return (group, _GHOST), _of_group(lot, _NO_MEMBER)
    members = [(_GHOST,), ("other",), ("", "still")]
    return {"group_id": group, "members": members}, _of_group(lot, 0)


@_asks(12)
def _beat(lot: Lot) -> Asked:
    group = lot.rng.choice((*lot.groups, ""))
    wanted = _of_group(lot, 0, _NO_MEMBER) if group else _alone(lot, 24, kind=GROUP)
    return (group, 5, _GHOST), wanted


@_asks(14)
def _sync(lot: Lot) -> Asked:
    group = lot.groups[0]
    row = {"group_id": group, "generation_id": 5, "member_id": _GHOST}
    if lot.version >= 5 and lot.is_trial:
        return row, {(): {23}}
    if lot.version >= 5:
        row |= {"protocol_type": "simulated", "protocol_name": "all"}
    return row, _of_group(lot, _NO_MEMBER)


@_asks(11)
def _join(lot: Lot) -> Asked:
    rows = [
        ("", "", 30_000, 24),
        (_GHOST, "", 5, 26),
        (_GHOST, "", 1 << 30, 26),
        (_GHOST, _GHOST, 30_000, _NO_MEMBER),
        ("shades", "", 30_000, 23),
    ]
    group, member, millis, code = lot.rng.choice(rows)
    row = {
        "group_id": group,
        "session_timeout_ms": millis,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "simulated",
        "protocols": [] if code == 23 else [("all", b"")],
    }
    return row, _of_group(lot, code)


@_asks(8, "topics/#/partitions/partition_index")
def _commit(lot: Lot) -> Asked:
    topic = (lot.some, b"7" * 16, [(0, 5)])
    row = {"group_id": _GHOST, "generation_id_or_member_epoch": 5, "member_id": _GHOST}
    known = [22 if lot.version < 9 else _NO_GROUP, *_COORDINATOR]
    codes = {100} if lot.version >= 10 else lot.topic(lot.some, known)
    return row | {"topics": [topic]}, {(0, 0): lot.allow(GROUP, _GHOST, *codes)}


@_asks(68)
def _pulse(lot: Lot) -> Asked:
    row: dict[str, Any] = {
        "group_id": _GHOST,
        "member_id": _GHOST,
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": [],
        "topic_partitions": [],
    }
    rows: list[tuple[dict[str, Any], int]] = [
        ({"group_id": " "}, _BAD_REQUEST),
        ({"member_epoch": 5, "topic_partitions": None}, _NO_GROUP),
        ({"server_assignor": "moon"}, 112),
        ({"rebalance_timeout_ms": -1}, _BAD_REQUEST),
        ({"rack_id": ""}, _BAD_REQUEST),
    ]
    change, code = lot.rng.choice(rows)
    return row | change, _of_group(lot, code, _NO_MEMBER)


@_asks(22)
def _begin(lot: Lot) -> Asked:
    rows = [
        (_GHOST, 1 << 30, -1, 50),
        ("", 5000, -1, _BAD_REQUEST),
        (_GHOST, 0, -1, 50),
        (_GHOST, 5000, 5, _BAD_REQUEST),
    ]
    name, millis, producer, code = lot.rng.choice(rows if lot.version >= 3 else rows[:3])
    return (name, millis, producer, -1), _alone(lot, code, *_COORDINATOR, kind=ID)


@_asks(24, "results_by_topic_v3_and_below/name/results_by_partition/partition_index", last=3)
def _add(lot: Lot) -> Asked:
    name = lot.rng.choice((_NOWHERE, lot.some, _OFFSETS))
    codes = lot.topic(name, [_NO_PRODUCER, *_COORDINATOR]) if name != _OFFSETS else {_FORBIDDEN}
    row = {
        "v3_and_below_transactional_id": _GHOST,
        "v3_and_below_producer_id": _NO_PRODUCER_ID,
        "v3_and_below_topics": [(name, [0])],
    }
    return row, {(name, 0): lot.allow(ID, _GHOST, *codes)}


@_asks(
    24,
    "results_by_transaction/transactional_id/topic_results/name/results_by_partition/partition_index",
    first=4,
)
def _add_all(lot: Lot) -> Asked:
    """Ask as only brokers do."""
    rows = [(each, _NO_PRODUCER_ID, 0, lot.is_trial, [(lot.some, [0])]) for each in (_GHOST, "")]
    codes = lot.topic(lot.some, [_NO_PRODUCER, *_COORDINATOR])
    empty = lot.topic(lot.some, [_BAD_REQUEST])
    things: Wanted = {(_GHOST, lot.some, 0): codes, ("", lot.some, 0): empty}
    return {"transactions": rows}, _of_cluster(lot, things)


def _of_ghost(lot: Lot) -> Wanted:
    """Return the codes of an answer about an id that no producer has."""
    return _alone(lot, _NO_PRODUCER, *_COORDINATOR, kind=ID)


@_asks(25)
def _add_offsets(lot: Lot) -> Asked:
    codes = _of_ghost(lot)[()] | lot.allow(GROUP, _GHOST, _NO_PRODUCER)
    return (_GHOST, _NO_PRODUCER_ID, 0, _GHOST), {(): codes}


@_asks(26)
def _end(lot: Lot) -> Asked:
    return (_GHOST, _NO_PRODUCER_ID, 0, lot.is_trial), _of_ghost(lot)


@_asks(28, "topics/name/partitions/partition_index", last=5)
def _commit_in_one(lot: Lot) -> Asked:
    topics = [(lot.some, _NO_ID, [(0, 5)]), (_NOWHERE, _NO_ID, [(0, 5)])]
    return (_GHOST, _GHOST, _NO_PRODUCER_ID, 0, -1, "", None, topics), {
        (lot.some, 0): lot.allow(ID, _GHOST, *lot.topic(lot.some, [_NO_PRODUCER, *_COORDINATOR])),
        (_NOWHERE, 0): lot.allow(ID, _GHOST, _UNKNOWN),
    }


@_asks(27, "markers/producer_id/topics/name/partitions/partition_index")
def _markers(lot: Lot) -> Asked:
    places = [(_NOWHERE, [0, 1]), (OWN, [_FAR])]
    rows = [(_NO_PRODUCER_ID, 0, lot.is_trial, places, 0), (-1, 0, lot.is_trial, [(OWN, [0])], 0)]
    named = ((_NO_PRODUCER_ID, name, index) for name, each in places for index in each)
    wanted = _alike(named, _UNKNOWN) | {(-1, OWN, 0): {_NO_PRODUCER}}
    return (rows,), _without_topics(lot, wanted)


@_asks(0, "responses/name+topic_id/partition_responses/index")
def _produce(lot: Lot) -> Asked:
    batch = bytearray(build_batch([Record(0, 0, b"k", b"v")]))
    if is_torn := lot.rng.random() < 0.5:
        batch[-1] ^= 1
    acks = lot.rng.choice((-1, -1, 5))
    by_id = lot.version >= 13
    places = ((_NOWHERE, b"7" * 16), (_OFFSETS, b"9" * 16))
    rows = [(name, topic_id, [(0, bytes(batch))]) for name, topic_id in places]
    if is_torn and not by_id:
        rows.append((lot.some, _NO_ID, [(0, bytes(batch))]))
    bad_acks = [21] if acks == 5 else []
    if by_id:
        return (None, acks, 30_000, rows), {("", each[1], 0): {100} for each in places}
    wanted: Wanted = {(_NOWHERE, _NO_ID, 0): {_UNKNOWN}}
    wanted[_OFFSETS, _NO_ID, 0] = lot.topic(_OFFSETS, bad_acks or [_BAD_TOPIC])
    if is_torn:
        wanted[lot.some, _NO_ID, 0] = lot.topic(lot.some, bad_acks or [2])
    return (None, acks, 30_000, rows), wanted


@_asks(1)
def _fetch(lot: Lot) -> Asked:
    count, session, epoch = lot.rng.choice(((600, 0, -1), (2, 77, -1), (1, 0, -1), (2, 77, 5)))
    if not session and lot.is_trial and not lot.has_sessions:  # whose room it would take
        epoch = 0
    parts = [{"partition": index, "current_leader_epoch": 5} for index in range(count)]
    row = {"max_wait_ms": 0, "max_bytes": 1000, "topics": [(lot.some, b"7" * 16, parts)]}
    if lot.version >= 7:
        row |= {"session_id": session, "session_epoch": epoch}
    return row, {(): {70} if lot.version >= 7 and epoch > 0 else {0}}


@_asks(34, "results/topic_name/partitions/partition_index")
def _move(lot: Lot) -> Asked:
    return ([("/nowhere", lot.places)],), _without_topics(lot, _alike(lot.parts(), 57))


INQUIRIES.update(
    {
        "reassigning": Inquiry(46, "", lambda lot: ((0, lot.places), _alone(lot, 0))),
        "handshake": Inquiry(17, "", lambda _: (("PLAIN",), {(): {_NO_LOGIN}})),
        "login": Inquiry(36, "", lambda _: ((b"x",), {(): {_NO_LOGIN}})),
    }
)
