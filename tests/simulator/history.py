"""One seed, one history: steps as data, played on a broker in a world and judged by the model.

A history is made of parts (`clients`), each with steps of its own and a model of what it may see.
A step is a list that JSON can hold: its kind and parameters. It has a stream of choices of its own,
seeded by the history and the step's number, so that leaving steps out changes no other step.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache, partial, partialmethod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.config.errors import StartError
from siltstone.storage.topic_partition import TopicPartition
from tests.simulator.clients.askers import BARS
from tests.simulator.clients.requests import share
from tests.simulator.clients.rules import BOOKS
from tests.simulator.faults import (
    CHANGES,
    DESCRIPTOR,
    DIES,
    FAILS,
    INODE,
    IO,
    NEVER,
    SPACE,
    START,
    Fault,
    Faults,
    draw_wishes,
    turn_of,
)
from tests.simulator.images import find_fault
from tests.simulator.incarnation import ROOT, Incarnation, Killed
from tests.simulator.model.files import judge_flushed
from tests.simulator.model.log import Wrong
from tests.simulator.parts import PART_OF, PARTS, have_parts
from tests.simulator.remains import check_running, find_leftovers
from tests.simulator.sites import Site, list_sites
from tests.simulator.wire import Client, Gone, Pending
from tests.simulator.world.disk import Disk
from tests.simulator.world.world import World
from tools.house import PRODUCT
from tools.sources import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from tests.simulator.wire import Question

    Action = Generator[Question, None, None]

STEPS = 200
Step = list[Any]
Steps = list[tuple[int, Step]]


class Plan(NamedTuple):
    """A history as data."""

    seed: int
    world: dict[str, Any]
    """How the world behaves: the cost of a read of the clock, how often threads run."""
    settings: list[str]
    """The broker's settings beside those of every history."""
    parts: dict[str, Any]
    """The draws of each part, such as the topics and their settings."""
    steps: Steps
    """The steps with their numbers."""
    wishes: Sequence[list[Any]] = ()
    """Faults that wait for a call of the site that they name, from the first start on."""
    image: Sequence[int] = ()
    """The step of a power failure, and which of the disks that it may leave is found; 0 without."""

    def only(self, numbers: Iterable[int]) -> Plan:
        """Return the plan with some of its steps, and of its wishes, which count from -1 down."""
        wanted = set(numbers)
        return self._replace(
            steps=[each for each in self.steps if each[0] in wanted],
            wishes=[each for at, each in enumerate(self.wishes) if -1 - at in wanted],
        )


_HALF = 0.5
_ASKS: Final = (0, 0, 0, 10, 40)
"""How many times clients ask beside the other steps."""
_FIRST_ASK: Final = 1000
"""The number of the first of these steps."""
_STAGED: Final = 0.33
"""How many histories are made of scenes, as a share of 1."""
_SCENES: Final = 9
"""How many scenes such a history has; each ends in a restart."""
_WAITING, _CROWDED, _MENDED = 0.15, 0.45, 0.7
"""Of a scene: below which share a step waits, or is a crowd; how often its fault is mended."""
_THEMED: Final = 0.5
"""How many of the other histories have a theme."""
_CALM: Final = 0.75
"""In how many of these the disk works."""
_ORDERED: Final = 0.06
"""How many histories have each order of steps beside their own."""
_FIRST_ORDERED: Final = 2000
"""The number of the first of the steps of the first order; each order has as many numbers."""
_FORGETFUL: Final = 0.1
"""In how many histories logs forget producers soon."""
_MOST_TOPICS: Final = 3
_OTHERS = frozenset({"wait", "burst", "fault", "mend", "judge", "directory", "memory"})
"""Kinds of steps that are of no part."""
LARGE_BYTES = 180_000
"""A request with a value of this size, or a little less, gets memory of its own."""
RESTARTS = ("stop", "kill", "dies", "power", "power_dies")
THEMES: Final = (
    ("transactions", "groups"),
    ("transactions", "groups", "members"),
    ("transactions", "compacted"),
    ("transactions", "moves"),
    ("transactions",),
    ("producers", "moves"),
    ("compacted", "moves"),
    ("compacted",),
    ("groups", "consumers"),
    ("groups", "members"),
    ("migrants",),
    ("rules", "admin"),
)
"""Parts that meet: a history with a theme has few other steps than theirs."""


_LONG: Final[Step] = ["wait", 70.0]
_MOVES: Final[list[Step]] = [["move", 0.1, 0.1, f"{ROOT}/{each}", "dates"] for each in "ab"]
_PRODUCE: Final[Step] = ["produce", 0.1, 0.1, 1, 600, 0, -1]
_PUT: Final[Step] = ["put", 0.99, [[0, 80], [1, 80]], 0, -1]
_SHORT_LIVED: Final = {
    "cleanup.policy": "delete",
    "segment.bytes": "200",
    "retention.ms": "5000",
    "segment.ms": "1000",
}


class Order(NamedTuple):
    """Kinds of steps, or steps, one after the other; most of the kinds at one place.

    Kinds that are together come side by side.
    """

    part: str
    kinds: Sequence[str | tuple[str, ...] | Step]
    settings: Mapping[str, str] = MappingProxyType({})
    """Settings of the topics."""
    world: Mapping[str, float] = MappingProxyType({})
    """How the world behaves."""
    pauses: Sequence[int] = (0, 0, 10, 100)
    """How long, in milliseconds, a client may pause between the steps of a burst."""
    is_wide: bool = False
    """Whether the steps go to several topics."""
    parts: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Draws that parts have instead of their own."""


ORDERS: Final = (
    # A topic goes while batches for it and for others wait.
    Order("records", ((*["produce"] * 6, "create_again"), "create") * 2, is_wide=True),
    # A topic goes whose log start is in a checkpoint, and one of its name comes.
    Order(
        "records",
        ("produce", "produce", "delete_records", "wait", "create_again", "produce", "kill"),
    ),
    # What a start has not read yet is asked for and changed at once.
    Order("records", ("produce", ("stop", "look_up", "produce"), "produce")),
    # The disk has no room for the files of a new segment, and then smaller batches come.
    Order(
        "records",
        (*["produce"] * 3, "shortage", *["produce"] * 4, "mend", *["produce"] * 2, "kill"),
        {"segment.bytes": "1000"},
    ),
    # Transactions are aborted while others are flushed; segments end, and the power goes.
    Order(
        "transactions",
        (*[("txn_send", "txn_end", "produce")] * 3, *["produce"] * 3, "wait", "power"),
        {"segment.bytes": "1000", "flush.messages": "1"},
        {"fsync_seconds": 0.02},
    ),
    # The process dies while cleaned segments take their places.
    Order("compacted", (("put",), ("put",), "dies", "put", "wait", "put", "wait")),
    # Transactions end while what others have aborted is flushed, and all of it is looked at.
    Order(
        "transactions",
        (*[("txn_send", "txn_end") * 2] * 4, "judge"),
        {"segment.bytes": "600", "flush.messages": "1"},
        {"fsync_seconds": 0.1},
        pauses=(10, 100, 300),
    ),
    # Threads take a log away while batches for it and for others are written together.
    Order(
        "records",
        ((*["produce"] * 6, "create_again"), "create") * 3,
        {"flush.messages": f"{2**63 - 1}"},
        {"steals": 0.5, "yields": 0.0},
        is_wide=True,
    ),
    # Smaller batches overtake a segment that could not be made, and the power brings it back.
    Order(
        "records",
        (_PRODUCE, "shortage", _PRODUCE, "mend", ["produce", 0.1, 0.1, 1, 20, 0, -1], "power") * 2,
        {"segment.bytes": "1000"},
    ),
    # The disk refuses moves at their beginning; then records come, and get old.
    Order(
        "moves",
        ("shortage", *_MOVES, "mend", _PUT, _PUT, _LONG, _PUT, _LONG, "judge"),
        parts={"moves": {"directories": 2}, "compacted": {"dates": _SHORT_LIVED}},
    ),
    # A member of a classic group stays for longer than offsets are kept, and leaves.
    Order(
        "members",
        (
            ["gather", 0.1, 0.1, 1, 5, False],
            ["commit_as_member", 0.1, 0.1, 0.1, 8, ""],
            *[_LONG, ["beat", 0.1, 0.1]] * 2,
            *(["leave", 0.1, 0.1], _LONG, "judge"),
        ),
        parts={"members": {"larks": [[False, 100_000]]}, "groups": {"minutes": 2}},
    ),
)
"""Orders of steps that lead to places to which no single step leads."""


def draw(seed: int, count: int = STEPS) -> Plan:
    """Draw the plan of a seed: which kinds of steps it has often, and which never."""
    rng = random.Random(seed)
    world = {
        "read_seconds": rng.choice((1e-6, 1e-6, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3)),
        "yields": rng.choice((0.0, 0.1, 0.25, 0.7)),
        "steals": rng.choice((0.0, 0.05, 0.15, 0.5)),
        "fsync_seconds": rng.choice((0.0, 0.0, 0.01, 0.2)),
    }
    settings = [
        "log.initial.task.delay.ms=100",
        f"log.flush.offset.checkpoint.interval.ms={rng.choice((500, 60_000))}",
        f"num.io.threads={rng.choice((1, 2, 8))}",
        f"log.cleaner.threads={rng.choice((1, 1, 2))}",
        f"log.cleaner.backoff.ms={rng.choice((300, 2_000, 15_000))}",
        "log.cleaner.dedupe.buffer.size=4000000",
    ]
    parts = {name: part.draw(rng) if hasattr(part, "draw") else {} for name, part in PARTS.items()}
    own_rng = random.Random(f"{seed} scenes")
    has_scenes = own_rng.random() < _STAGED
    theme = Theme({}) if has_scenes else draw_theme(seed, parts)
    weights = _draw_weights(rng, parts, theme.weights)
    kinds = list(weights)
    picks = rng.choices(kinds, list(weights.values()), k=count)
    own = {kind: weight for kind, weight in weights.items() if weight and kind not in _OTHERS}
    behind: set[int] = set()
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        at = rng.randrange(count // 3, count)
        picks[at] = rng.choice(RESTARTS)
        before = max(0, at - rng.randrange(1, 6))
        trouble = rng.choice(("", "fault", "rare", "behind"))
        if trouble == "behind":  # the death waits for the fault
            picks[before], picks[at] = rng.choice(("dies", "power_dies")), "fault"
            behind.add(before)
        elif trouble == "fault":  # what it leaves half done meets the restart
            picks[before] = trouble
        elif trouble:
            picks[before:at] = rng.choices(("burst", *own), k=at - before)
    steps = []
    for number, kind in enumerate(picks):
        step = _draw_step(kind, rng, own)
        is_behind = number in behind and kind in {"dies", "power_dies"}
        steps.append((number, [*step, True] if is_behind else step))
    if has_scenes:
        world["late_cuts"] = own_rng.choice((0.0, 0.3, 0.6))
        world["pread_seconds"] = own_rng.choice((0.0, 0.001, 0.05))
        steps = _draw_scenes(own_rng, parts)[:count]
    _draw_rare(seed, steps, parts)
    _draw_asks(seed, steps, parts)
    ordered = _draw_orders(seed, steps, parts)
    for name, part in PARTS.items():
        if hasattr(part, "settings_of"):
            settings += part.settings_of(parts[name])
    settings += _draw_expiry(seed)
    wishes = [list(each) for each in draw_wishes(rng, turn_of(seed, find_sites()))]
    plan = theme.shape(Plan(seed, world, settings, parts, steps, wishes))
    return plan._replace(world=plan.world | ordered)


def _draw_rare(seed: int, steps: Steps, parts: dict[str, Any]) -> None:
    """Have rare steps in place of others, or beside them, by numbers of their own.

    So histories without them stay as they are, and no kind shifts what is drawn of another.
    """
    for kind, (needed, counts, make) in _RARE.items():
        rng = random.Random(f"{seed} {kind}")
        for _ in range(rng.choice(counts) if parts[needed] else 0):
            at = rng.randrange(len(steps))
            if steps[at][1][0] not in RESTARTS:
                steps[at] = at, make(steps[at][1], rng)


def _draw_asks(seed: int, steps: Steps, parts: dict[str, Any]) -> None:
    """Have some ask between the steps, or beside those of a burst, by numbers of their own."""
    rng = random.Random(f"{seed} asks")
    count = rng.choice(_ASKS)
    if count and parts["rules"].get("authorizes"):
        steps.insert(0, (_FIRST_ASK, ["rule", "acl", BARS, ""]))
    for number in range(_FIRST_ASK + 1, _FIRST_ASK + 1 + count):
        at = rng.randrange(1, len(steps) + 1)
        asks = [_draw_step("ask", rng, {}) for _ in range(rng.choice((1, 1, 4)))]
        own, step = steps[at - 1]
        if step[0] == "burst":
            steps[at - 1] = own, [*step[:1], [*step[1], *asks], *step[2:]]
        else:
            steps.insert(at, (number, ["burst", asks] if len(asks) > 1 else asks[0]))


def _draw_expiry(seed: int) -> list[str]:
    """Return settings by which logs forget producers soon, in some histories."""
    rng = random.Random(f"{seed} expiry")
    name, values = "producer.id.expiration", (rng.choice((1_000, 60_000)), rng.choice((100, 5_000)))
    forgets = rng.random() < _FORGETFUL
    return [f"{name}.ms={values[0]}", f"{name}.check.interval.ms={values[1]}"] if forgets else []


def _draw_orders(seed: int, steps: Steps, parts: dict[str, Any]) -> dict[str, float]:
    """Have orders of steps come a few times between the steps, each by numbers of its own.

    What is returned is the world that they need.
    """
    world: dict[str, float] = {}
    for at, order in enumerate(ORDERS):
        rng = random.Random(f"{seed} order {at}")
        if (parts[order.part] or order.parts) and rng.random() < _ORDERED:
            _draw_order(order, rng, steps, parts, _FIRST_ORDERED * (at + 1))
            pread_seconds, splits = rng.choice((0.0, 0.001, 0.05)), rng.choice((0.0, 0.3))
            world |= {"fsync_seconds": 0.0, "pread_seconds": pread_seconds, "splits": splits}
            world |= order.world
    return world


def _draw_order(
    order: Order, rng: random.Random, steps: Steps, parts: dict[str, Any], number: int
) -> None:
    for name, own in order.parts.items():
        parts[name] |= own
    while order.is_wide and len(parts["records"]) < _MOST_TOPICS:
        parts["records"] = PARTS["records"].draw(rng)
    topics = parts["compacted"] if order.part == "compacted" else parts["records"]
    for each in topics.values():
        each.get("settings", each).update(order.settings)
    if order.part == "transactions":
        parts["transactions"]["ids"] *= 8
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(1, len(steps) + 1)
        where = [] if order.is_wide else [share(rng), share(rng)]
        drawn = [
            each if isinstance(each, list) else _draw_ordered(each, rng, where, order.pauses)
            for each in order.kinds
        ]
        steps[at:at] = enumerate(drawn, number)
        number += len(drawn)


def _draw_ordered(
    kind: str | tuple[str, ...], rng: random.Random, where: list[float], pauses: Sequence[int]
) -> Step:
    if isinstance(kind, tuple):
        is_end = kind[0] in RESTARTS
        crowd = _draw_crowd(rng, kind[1:], where) if is_end else []
        return [kind[0], crowd] if is_end else ["burst", _draw_rows(rng, kind, where, pauses)]
    if kind == "shortage":
        what = rng.choice((SPACE, INODE, DESCRIPTOR))
        return ["fault", list(Fault(what, kind="create", nth=rng.choice((1, 2, 3))))]
    if kind == "dies":
        return [kind, rng.choice((4, 6, 9, 14)), 0, "rename", -1]
    if kind == "wait":
        return [kind, rng.choice((3.0, 70.0, 70.0))]
    if kind in {"mend", "judge", *RESTARTS}:
        return [kind]
    return _move(_draw_step(kind, rng, {}), where)


def _draw_rows(
    rng: random.Random, kinds: Sequence[str], where: Sequence[float], pauses: Sequence[int]
) -> list[Step]:
    """Draw rows to be played side by side, each of one kind or of all; perhaps clients pause."""
    models = [_draw_step(kind, rng, {}) for kind in kinds]
    is_mixed, most, ms = rng.choice((0, 1)), rng.choice((4, 8, 16)), rng.choice(pauses)
    rows: list[Step] = []
    for number in range(rng.choice((8, 14))):
        places = [number + is_mixed * at for at in range(rng.randrange(1, most + 1))]
        row = _place([models[each % len(models)] for each in places], rng, where)
        if ms:
            row = [each for step in row for each in (["pause", rng.randrange(ms)], step)]
        rows.append(["row", row])
    return rows


def _has_kind(step: Step, kind: str) -> bool:
    """Tell whether a step, or one in it, is of a kind."""
    return step[:1] == [kind] or any(
        _has_kind(each, kind) for each in step if isinstance(each, list)
    )


def _beside(step: Step, *others: Step) -> list[Step]:
    """Return steps that are played side by side, with others than the history's own."""
    own = step[1] if step[0] == "burst" else [step] if step[0] not in _OTHERS else []
    return [*own, *others]


def _draw_refusals(step: Step, rng: random.Random) -> Step:
    large = ["produce", share(rng), share(rng), 1, LARGE_BYTES, 0, -1]
    return ["memory", rng.choice((1, 2, 5)), _beside(step, large)]


def _draw_pin(step: Step, rng: random.Random) -> Step:
    pin = _draw_step(rng.choice(("pin", "pin", "release")), rng, {})
    return ["burst", _beside(step, pin)] if step[0] not in _OTHERS - {"burst"} else step


def _draw_backup(step: Step, rng: random.Random) -> Step:
    others = [_draw_step("produce", rng, {}) for _ in range(rng.choice((1, 3, 6)))]
    return ["burst", _beside(step, *others, ["row", [["backup"], *others]])]


def _draw_changes(step: Step, rng: random.Random) -> Step:
    """Draw changes of one thing by several administrators."""
    book = rng.choice(list(BOOKS))
    keys = [*BOOKS[book]]
    rng.shuffle(keys)
    rows = [["rule", book, each, rng.choice((*BOOKS[book][each], None))] for each in keys]
    return ["burst", _beside(step, *rows)]


_RARE: Final[dict[str, tuple[str, Sequence[int], Callable[[Step, random.Random], Step]]]] = {
    "directories": (
        "moves",
        (0, 0, 1, 2),
        lambda _, rng: ["directory", f"{ROOT}/{rng.choice('ab')}", rng.random() < 0.3],
    ),
    "memory": ("records", (0, 0, 0, 0, 0, 0, 1, 2), _draw_refusals),
    "pins": ("records", (0, 0, 0, 6, 12), _draw_pin),
    "backups": ("records", (0, 0, 0, 1, 2), _draw_backup),
    "settings": ("records", (0, 0, 0, 4), lambda _, rng: _draw_step("configure", rng, {})),
    "changes": ("rules", (0, 4, 12), _draw_changes),
}
"""Of each kind: the part without which none comes, how often it comes, what makes it of a step."""


def _draw_scenes(rng: random.Random, parts: dict[str, Any]) -> Steps:
    """Draw scenes, in topics that suit them."""
    topics = [each["settings"] for each in parts["records"].values()]
    for settings in (*topics, *parts["compacted"].values()):
        settings.update(rng.choice(({}, {"segment.bytes": "600"}, {"segment.bytes": "1000"})))
        settings.update(rng.choice(({}, {}, {"flush.messages": "1"})))
    kinds = [list(part.WEIGHTS) for name, part in PARTS.items() if parts[name]]
    return list(enumerate(step for _ in range(_SCENES) for step in _draw_scene(rng, kinds)))


def _draw_scene(rng: random.Random, parts: Sequence[Sequence[str]]) -> list[Step]:
    """Draw steps of few kinds, most to one log, perhaps a fault that is mended, and a restart.

    So what a fault or a crowd leaves half done is gone on with, and meets the end of the process.
    """
    own = rng.choice((*parts[:5], rng.choice(parts)))
    few = [own[0], *rng.sample(own[1:], k=rng.randrange(min(4, len(own))))]
    if rng.random() < _HALF:
        rng.shuffle(few)
    if rng.random() < _HALF:
        few += [parts[0][0], rng.choice(rng.choice(parts))]
    where = [share(rng), share(rng)] if rng.random() < _HALF else []

    def some(most: int) -> list[Step]:
        kinds = [few[0], rng.choice(own)] if rng.random() < _HALF else few
        return [_draw_some(rng, kinds, where) for _ in range(rng.randrange(1, most))]

    scene = some(5)
    if rng.random() < _HALF:
        fault = _draw_fault(rng) if rng.random() < _HALF else _draw_shortage(rng)
        scene += [["fault", list(fault)], *some(4)]
        scene += [["mend"], *some(5)] if rng.random() < _MENDED else []
    way = rng.choice(RESTARTS)
    if way in {"stop", "kill"}:
        met = [own[0], rng.choice(own), rng.choice(few)]
        return [*scene, [way, _draw_crowd(rng, met, where, (2, 3, 5))]]
    if way == "power":
        return [*scene, [way]]
    return [*scene[:-2], [way, *_draw_death(rng)], *scene[-2:]]


def _draw_some(rng: random.Random, kinds: Sequence[str], where: Sequence[float]) -> Step:
    way = rng.random()
    if way < _WAITING:
        return ["wait", rng.choice((0.05, 0.5, 3.0))]
    if way < _CROWDED:
        return ["burst", _draw_crowd(rng, kinds, where), rng.choice((0, 0, 1, 3))]
    return _move(_draw_step(_one_of(rng, kinds, _HALF), rng, {}), where)


def _one_of(rng: random.Random, kinds: Sequence[str], first: float) -> str:
    """Draw a kind; the first one comes more often than the others, by this share."""
    return kinds[0] if rng.random() < first else rng.choice(kinds)


def _draw_crowd(
    rng: random.Random,
    kinds: Sequence[str],
    where: Sequence[float],
    rows: Sequence[int] = (2, 4, 8, 8),
) -> list[Step]:
    """Draw rows of steps to be played side by side; those of a kind differ in their places only.

    In half of the crowds all steps of a row are of one kind.
    """
    models = {kind: _draw_step(kind, rng, {}) for kind in kinds}
    first, longest = rng.choice((0.2, 0.9)), rng.choice((1, 4, 8))
    is_alike = rng.random() < _HALF
    crowd: list[Step] = []
    for _ in range(rng.choice(rows)):
        row = [models[_one_of(rng, kinds, first)] for _ in range(rng.randrange(1, longest + 1))]
        row = [row[0]] * len(row) * 2 if is_alike else row
        crowd.append(["row", _place(row, rng, where)])
    return crowd


def _place(row: Sequence[Step], rng: random.Random, where: Sequence[float]) -> list[Step]:
    """Return steps with other places, or all at one."""
    row = [[share(rng) if isinstance(each, float) else each for each in step] for step in row]
    return [_move(step, where) for step in row]


class Theme(NamedTuple):
    """How a history is where some parts meet; without a theme it has no weights."""

    weights: dict[str, float]
    """How often kinds of steps come; others hardly do."""
    fsync_seconds: float = 0.0
    is_narrow: bool = False
    """Whether most steps go to the first places."""
    is_calm: bool = False
    """Whether the disk works, so that all is judged."""

    def shape(self, plan: Plan) -> Plan:
        """Return the plan that a history of this theme has instead of another."""
        if self.weights:
            plan = plan._replace(world=plan.world | {"fsync_seconds": self.fsync_seconds})
        if self.is_narrow:
            plan = plan._replace(steps=[(number, _narrow(step)) for number, step in plan.steps])
        if self.is_calm:
            steps = [each for each in plan.steps if each[1][0] not in {"fault", "directory"}]
            plan = plan._replace(steps=steps, wishes=[])
        return plan


def draw_theme(seed: int, parts: dict[str, Any]) -> Theme:
    """Have some parts meet in half of the histories, by numbers of their own.

    Parts that would do nothing are drawn again.
    """
    rng = random.Random(f"{seed} theme")
    theme = rng.choice(THEMES) if rng.random() < _THEMED else ()
    for name in theme:
        while not parts[name]:
            parts[name] = PARTS[name].draw(rng)
    kinds = [(kind, weight) for name in theme for kind, weight in PARTS[name].WEIGHTS.items()]
    weights = {kind: weight * rng.choice((0, 1, 1, 3)) for kind, weight in kinds}
    fsync_seconds = rng.choice((0.0, 0.01, 0.01, 0.2))
    if theme and rng.random() < _HALF:
        for each in parts["records"].values():
            each["settings"]["flush.messages"] = "1"
    is_narrow, is_calm = rng.random() < _HALF, rng.random() < _CALM
    return Theme(weights, fsync_seconds, is_narrow, is_calm) if theme else Theme({})


def _narrow(step: Step) -> Step:
    """Return a step that goes to one of the first places more often than to others."""
    if step[0] in {*_OTHERS, *RESTARTS} - {"burst", "memory", "stop", "kill"}:
        return step
    return [_narrower(each) for each in step]


def _narrower(drawn: Any) -> Any:
    """Return what was drawn with smaller shares of 1."""
    if isinstance(drawn, list):
        return [_narrower(each) for each in drawn]
    return round(drawn**2, 6) if isinstance(drawn, float) else drawn


def _draw_weights(
    rng: random.Random, parts: dict[str, Any], theme: dict[str, float]
) -> dict[str, float]:
    """Draw how often each kind of step comes; many histories use few parts, each of them much."""
    share = rng.choice((0.15, 0.4, 1.0))
    weights: dict[str, float] = {}
    for name, part in PARTS.items():
        if not hasattr(part, "draw"):
            continue  # its steps are rare ones
        is_used = rng.random() < share and parts[name]
        for kind, weight in part.WEIGHTS.items():
            weights[kind] = weight * rng.choice((0, 1, 1, 3)) if is_used else 0
    if theme:
        weights = {kind: theme.get(kind, 0.03 * weight) for kind, weight in weights.items()}
    weights["produce"] = max(weights["produce"], 1 if theme else 6)
    percent = sum(weights.values()) / 100
    return weights | {
        "wait": 3 * percent,
        "burst": rng.choice((5, 10, 20) if theme else (0, 2, 5)) * percent,
        "fault": rng.choice((0, 1, 2, 5)) * percent,
        "mend": percent,
        "judge": 0.3 * percent,
    }


def _draw_step(kind: str, rng: random.Random, own: dict[str, float]) -> Step:
    if kind == "burst":
        return [kind, _draw_burst(rng, own), rng.choice((0, 0, 1, 3))]
    if kind in {"stop", "kill"}:
        return [kind, _draw_burst(rng, own) if rng.random() < 0.7 else []]
    if kind in {"dies", "power_dies"}:
        return [kind, *_draw_death(rng)]
    if kind in {"mend", "judge", "power"}:
        return [kind]
    if kind == "wait":
        drawn: Step = [rng.choice((0.05, 0.5, 3.0, 70.0))]
    elif kind == "fault":
        drawn = [list(_draw_fault(rng))]
    else:
        drawn = PARTS[PART_OF[kind]].draw_step(kind, rng)
    return [kind, *drawn]


def _draw_death(rng: random.Random) -> Step:
    """Draw at which call the process dies: any, one of a kind that changes something, or of a site.

    A change that takes several calls of few kinds is so cut at each of them.
    """
    in_start = rng.choice((0, 0, rng.randrange(1, 200)))
    way = rng.randrange(3)
    if not way:
        return [rng.randrange(1, 80), in_start, "", -1]
    calls = rng.choice((1, 2, 3, 4, 6, 9, 14))
    if way == 1:
        return [calls, in_start, rng.choice(sorted(CHANGES)), -1]
    return [calls, in_start, "", rng.randrange(500)]


def _draw_burst(rng: random.Random, own: dict[str, float]) -> list[Step]:
    """Draw steps that are played side by side; in half of the bursts rare kinds are not rare.

    In some bursts each place has a row of steps, one after the other. Some have so many places that
    the broker takes the batches of several connections in one round. In some all go to one log.
    """
    power = rng.choice((1.0, 0.3))
    weights = [weight**power for weight in own.values()]
    longest = rng.choice((1, 2, 4))
    burst = []
    where = [share(rng), share(rng)] if rng.random() < _HALF else []
    for _ in range(rng.choice((2, 3, 5, 5, 14))):
        kinds = rng.choices(list(own), weights, k=rng.randrange(1, longest + 1))
        row = [_move(_draw_step(each, rng, own), where) for each in kinds]
        burst.append(row[0] if len(row) == 1 else ["row", row])
    return burst


def _move(step: Step, where: Sequence[float]) -> Step:
    """Return a step that goes to the same log, where the step goes to one."""
    first = getattr(PARTS[PART_OF[step[0]]], "PLACE", len(step))
    moved = [
        there if isinstance(own, float) else own
        for own, there in zip(step[first:], where, strict=False)
    ]
    return [*step[:first], *moved, *step[first + len(moved) :]]


def _draw_fault(rng: random.Random) -> Fault:
    """Draw a fault by the kind of its call, or by rank.

    The site of a rank is one of those that the history has come to by then. The first ranks are
    another site's with each seed, so that many seeds come to all of them. What changes something
    has few kinds of calls and many sites, so that a kind strikes often where few sites do.
    """
    what = rng.choice([each for each in FAILS if each != NEVER or rng.random() < 0.3])
    nth = rng.choice((1, 1, 1, 2, 3, 5))
    kinds = sorted(CHANGES & FAILS[what])
    is_by_kind = bool(kinds) and rng.random() < 0.5
    return Fault(
        what,
        kind=rng.choice(kinds) if is_by_kind else "",
        rank=-1 if is_by_kind else rng.choice((rng.randrange(4), rng.randrange(500))),
        nth=nth,
        is_sticky=rng.random() < 0.3,
        amount=rng.choice((0.1, 0.5, 0.9)),
    )


def _draw_shortage(rng: random.Random) -> Fault:
    """Draw a fault that ends when the disk is mended: a kind of calls that finds no room."""
    what = rng.choice((SPACE, INODE, DESCRIPTOR))
    kinds = sorted((CHANGES - {"fsync"}) & FAILS[what])
    nth = rng.choice((1, 1, 2, 3))
    return Fault(what, kind=rng.choice(kinds), nth=nth, is_sticky=rng.random() < _HALF)


@cache
def find_sites() -> list[Site]:
    """Return the sites of the product; the first call reads all of its files."""
    root = Path(__file__).resolve().parents[2]
    return list_sites(Tree(root, PRODUCT))


class History:
    """A plan that is played; ``story`` has a line for each thing that happened."""

    def __init__(self, plan: Plan, *, is_traced: bool = False, images: int = 1) -> None:
        self.plan = plan
        self._images = images
        self.world = World(plan.seed, is_traced=is_traced, **plan.world)
        self.world.disk = Disk(
            self.world.before_call, self.world.now_ns, ROOT, numbers=self.world.descriptors
        )
        self.world.disk.after_fsync = self.world.take_time
        self.faults = Faults(
            self.world.sleep, self._park, turn_of(plan.seed, find_sites()), self._tell_fault
        )
        for each in plan.wishes:
            self.faults.wish(Fault(*each))
        self.faults.die = self.world.die
        self.world.find_fault = self.faults.before
        self._is_armed = False
        self._failing: Fault | None = None
        self._forgiven = self._mends = self._hits_before = 0
        self._has_operators = any(_has_kind(step, "configure") for _, step in plan.steps)
        self.environ: dict[str, str] = {}
        self.incarnation = self._new_incarnation()
        self._clients: list[Client] = []
        self._spare: list[Client] = []
        self._lent = self._most_lent = 0
        self.parts = {name: PARTS[name](self, plan.parts[name]) for name in plan.parts}
        self.story: list[str] = []
        self.step: Step = []
        self.number = -1
        self.restarts: list[str] = []
        self.deaths_in_a_start = self.failed_starts = self.judged_images = 0
        self.named: dict[int, Step] = {}
        """The steps of faults with their sites instead of ranks, which change with the product."""
        self._death = ("kill", 0)
        self.is_over = False
        """Whether all steps have been played."""

    def _new_incarnation(self) -> Incarnation:
        environ = self.environ if self._has_operators else None
        return Incarnation(self.world, self.plan.settings, environ)

    # What parts use.

    @property
    def rng(self) -> random.Random:
        """The choices of this step."""
        return self.world.choices

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return self.world.now_ns() // 1_000_000

    @property
    def is_sound(self) -> bool:
        """Tell whether all must succeed: the disk works, and has not failed a moment ago.

        An error that lasts, such as one of an fsync, has the broker refuse writes up to a restart.
        """
        return not self._is_armed and self._failing is None and self.hits == self._forgiven

    def works(self, topic: str, partition: int) -> bool:
        """Tell whether all must succeed with a partition: also beside a directory that fails."""
        if self._failing is None or self._is_armed:
            return self.is_sound
        is_beside = not self.is_failing(topic, partition)
        return is_beside and self.hits - self.faults.hit_below == self._forgiven

    def is_failing(self, topic: str, partition: int) -> bool:
        """Tell whether a partition's log is in a directory that fails, or is not found."""
        if self._failing is None:
            return False
        log = self.incarnation.broker.logs.logs.get(TopicPartition(topic, partition))
        return log is None or str(log.directory.path) == self._failing.below

    def is_sure(self, topic: str, partition: int, base: int, body: bytes) -> bool:
        """Tell whether a batch is where a power failure does not take it, or its log is gone."""
        log = self.incarnation.broker.logs.logs.get(TopicPartition(topic, partition))
        files = self.world.disk.sure(str(log.path)) if log is not None else {}
        names = [each for each in files if each.endswith(".log") and int(each[:-4]) <= base]
        return log is None or (bool(names) and body in files[max(names)])

    def find_segments(self, topic: str, partition: int) -> dict[int, int]:
        """Return numbers for the files of a log's segments, by first offsets."""
        log = self.incarnation.broker.logs.logs[TopicPartition(topic, partition)]
        found = self.world.disk.folder(str(log.path))
        return {
            int(name[:-4]): hash((data, found.get(f"{name[:-4]}.index")))
            for name, data in found.items()
            if name.endswith(".log")
        }

    @property
    def is_killed(self) -> bool:
        """Tell whether the process has just been killed: nothing is sent any more."""
        return self.world.is_killed

    @property
    def hits(self) -> int:
        """How often the disk has failed, or memory was refused."""
        return self.faults.hit.total() + self.world.refused

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something done when some time has passed."""
        self.world.later(seconds, act)

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.incarnation.let_pass(seconds)

    def reload(self) -> None:
        """Have the broker read its settings again, as SIGHUP does."""
        self.incarnation.run(self.incarnation.broker.reload())

    def _park(self) -> None:
        """Have a call hang until the disk is mended."""
        before = self._mends
        self.world.wait(lambda: self._mends > before)

    def client(self, **options: Any) -> Client:
        """Return a new client."""
        client = Client(lambda: self.incarnation, **options)
        self._clients.append(client)
        return client

    def beside(self, own: Client, *, keeps: bool = False) -> Client:
        """Return a part's own client; in a burst another one, which others may use, too.

        A part that ``keeps`` its own gets another one only if others use that, too.
        """
        if self.step[0] != "burst" or (keeps and not self._most_lent):
            return own
        at = self._lent % self._most_lent if self._most_lent else self._lent
        self._lent += 1
        if at == len(self._spare):
            self._spare.append(self.client())
        return self._spare[at]

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.world.now:12.6f} {self.number:4} {line}")

    def _tell_fault(self, fault: Fault) -> None:
        self.tell(f"  {fault.what}: {fault.kind} in {fault.file} {fault.function}")

    # Playing.

    def play(self) -> None:
        """Play all steps, then judge, stop, and start, which judges again.

        Raises:
            AssertionError: The broker has done something wrong; `Wrong`, or `Silent`, or `Stuck`.
        """
        self._start()
        self.faults.are_wishes_heard = False
        self._play_step(["setup"])
        self.faults.are_wishes_heard = True
        for number, step in self.plan.steps:
            self.number = number
            self.world.choices.seed(f"{self.plan.seed} {number}")
            self._play_step(step)
        self.number, self.is_over = STEPS + 1, True
        self.world.choices.seed(f"{self.plan.seed} end")
        self._play_step(["judge"])
        self._play_step(["stop"])
        self._play_step(["rest"])
        self._end("kill")
        have_parts(self.parts, "ended")

    def _play_step(self, step: Step) -> None:
        self.step = step
        self.tell(" ".join(map(str, step)))
        try:
            self._dispatch(step)
            self._look_for_failures()
        except Killed:
            self._restart(*self._death)

    def _dispatch(self, step: Step) -> None:
        kind = step[0]
        if own := getattr(self, f"_do_{kind}", None):
            own(*step[1:])
        else:
            self.run([self._action(step)])

    def _action(self, step: Step) -> Action:
        if step[0] == "row":
            return self._play_row(step[1])
        if step[0] == "pause":
            return self._pause(step[1] / 1000)
        action: Action = self.parts[PART_OF[step[0]]].play(step[0], *step[1:])
        return action

    def _play_row(self, steps: Sequence[Step]) -> Action:
        for each in steps:
            if not self.world.is_killed:
                yield from self._action(each)

    def _pause(self, seconds: float) -> Action:
        question = Pending()
        self.world.later(seconds, question.end)
        yield question

    def run(self, actions: Iterable[Action]) -> None:
        """Run actions side by side: each goes on when the answer that it waits for has come."""
        running: dict[Action, Question] = {}
        for each in actions:
            self._advance(each, running)
        try:
            while running:
                done = self._wait_for_one(running)
                for each in done:
                    del running[each]
                    self._advance(each, running)
        except Killed:
            for client in self._clients:
                client.forget()
            for each in list(running):
                with suppress(Gone):
                    self._advance(each, running)
                each.close()
            raise
        except Gone as error:
            raise Wrong(f"a connection was closed without an answer to {error}") from error

    def _advance(self, action: Action, running: dict[Action, Question]) -> None:
        """Have an action go on up to a question that has no answer yet."""
        try:
            asked = next(action)
            while asked.answer is not None and not asked.is_cut:
                asked = next(action)
        except (StopIteration, ConnectionRefusedError):
            return
        running[action] = asked

    def _wait_for_one(self, running: dict[Action, Question]) -> list[Action]:
        questions = list(running.values())

        def done() -> bool:
            for asked in questions:  # noqa: SIM110  # half the time of `any`
                if asked.answer is not None:
                    return True
            return False

        if not self.incarnation.run_until(done, 40.0):
            if self._is_armed:  # a call of the disk hangs; what failed before is still answered
                self._mends += 1
                self.faults.mend()
            if not self.incarnation.run_until(done, 130.0):
                waiting = [asked.key for asked in running.values()]
                raise Wrong(f"no answer in 130 s to requests of the APIs {waiting}")
        answered = [each for each, asked in running.items() if asked.answer is not None]
        for action in answered:
            if running[action].is_cut and self.is_sound:
                key = running[action].key
                raise Wrong(f"a connection was closed without an answer to API {key}")
        return answered

    # Steps of the history itself.

    def _do_setup(self) -> None:
        self.run(have_parts(self.parts, "set_up"))

    def _do_burst(self, steps: Sequence[Step], connections: int = 0) -> None:
        """Play steps side by side, on some connections, or each on one of its own."""
        self._lent, self._most_lent = 0, connections
        self.run([self._action(each) for each in steps])

    def _do_wait(self, seconds: float) -> None:
        self.incarnation.let_pass(seconds, jumps=seconds > 1)

    def _do_fault(self, data: list[Any]) -> None:
        fault = self.faults.arm(Fault(*data))
        if fault is not None:
            self.named[self.number] = ["fault", list(fault)]
            self._is_armed = True
            self._tell_fault(fault)

    def _do_directory(self, path: str, stays: bool) -> None:
        """Have all calls below a log directory fail, up to the next start or in that as well."""
        if self.is_sound:
            when = START if stays else ""
            self._failing = self.faults.arm(Fault(IO, below=path, is_sticky=True, when=when))

    def _do_memory(self, refusals: int, steps: Sequence[Step]) -> None:
        """Have requests for memory refused while steps are played side by side, and behind them."""
        self.world.refusals = refusals
        self.step = ["burst", steps]
        self._do_burst(steps)

    def _do_mend(self) -> None:
        if not self.is_sound:
            self._mend()
            self._slow_down(0)
            self.incarnation.let_pass(3.5, jumps=True)
            self.incarnation.let_pass(2.5)  # what had begun before ends, and is done once more
            have_parts(self.parts, "mended")
            self._slow_down()

    def _slow_down(self, factor: int = 1) -> None:
        """Let fsyncs and reads take their time again, or none: what must have ended has."""
        self.world.fsync_seconds = self.plan.world.get("fsync_seconds", 0.0) * factor
        self.world.pread_seconds = self.plan.world.get("pread_seconds", 0.0) * factor

    def _mend(self) -> None:
        self._is_armed = False
        self._mends += 1
        self.world.refusals = 0
        self.faults.mend()
        # A fault behind a marker leaves a transaction that only a start ends.
        is_lasting = any("transaction_index" in site.file for site in self.faults.hit)
        if not self.faults.is_lasting and not is_lasting:
            self._forgiven, self._failing = self.hits, None

    def _do_judge(self) -> None:
        self.faults.are_wishes_heard = False
        self._do_mend()
        seconds = self.world.fsync_seconds + self.world.pread_seconds
        self._slow_down(0)
        self.incarnation.let_pass(0.05 + seconds)  # what asks for no answer is served
        have_parts(self.parts, "judge")
        self._look_for_failures()
        check_running(self.incarnation)
        judge_flushed(self.world.disk, self.incarnation.broker.logs.all_logs())
        self._slow_down()
        self.faults.are_wishes_heard = True

    def _do_rest(self) -> None:
        """Let all deletions come due, and look for what is left over."""
        self.faults.are_wishes_heard = False
        self._slow_down(0)
        for is_last in (*[False] * 7, True):  # offsets expire, and the cleaner goes on for a while
            self.incarnation.let_pass(70.0, jumps=True)
            self.incarnation.let_pass(2.0)
            if not (left := find_leftovers(self.incarnation)):
                break
            if is_last:
                raise Wrong(left)
        have_parts(self.parts, "rested")

    def _do_stop(self, steps: Sequence[Step] = ()) -> None:
        """Stop; where that has failed, nothing more is promised than after a kill."""
        self._do_mend()
        was_sound = self.is_sound  # a disk that has failed for good takes no flush
        hits = self.hits
        try:
            is_clean = self.incarnation.stop()
        except OSError as error:
            raise Wrong(f"the broker ends its stop half way: {error}") from error
        is_slow = self.world.fsync_seconds > 0  # perhaps for longer than a stop may take
        if self.is_sound and not is_clean and not is_slow:
            raise Wrong("the stop is not clean, although the disk works")
        is_clean = is_clean and was_sound and self.hits == hits
        if is_clean:
            have_parts(self.parts, "stopped")
        self._begin_again("stop" if is_clean else "kill", steps)

    def _do_kill(self, steps: Sequence[Step] = ()) -> None:
        self._end("kill")
        self._begin_again("kill", steps)

    def _die_later(  # a step's parameters
        self,
        way: str,
        calls: int,
        calls_in_start: int,
        kind: str = "",
        site: int | list[str] = -1,
        is_behind: bool = False,
    ) -> None:
        """Have the process die at a call, counted from now on, or from behind the next fault.

        The site may be a rank, -1 if the kind alone counts.
        """
        self._death = (way, calls_in_start)
        number, step = self.number, self.step

        def arm() -> None:
            where = {"rank": site} if isinstance(site, int) else Site(*site)._asdict()
            found = None if site == -1 else self.faults.arm(Fault(DIES, nth=calls, **where))
            if found is None:
                self.world.kill_later(calls, kind)
            else:
                self.named[number] = [*step[:4], list(found[1:4]), is_behind]

        if is_behind:
            self.faults.struck = arm
        else:
            arm()

    def _restart(self, way: str, calls_in_start: int = 0) -> None:
        """End and begin again; of a power failure several disks that it may leave are judged."""
        for image in range(1, self._images if way == "power" else 0):
            fault = find_fault(partial(self._restart_from, image, way, calls_in_start))
            self.judged_images += 1
            if fault is not None:
                self.plan = self.plan._replace(image=[self.number, image])
                raise Wrong(fault)
        step, image = self.plan.image or (None, 0)
        self._restart_from(image if step == self.number else 0, way, calls_in_start)

    _do_power = partialmethod(_restart, "power")
    _do_dies = partialmethod(_die_later, "kill")
    _do_power_dies = partialmethod(_die_later, "power")

    def _restart_from(self, image: int, way: str, calls_in_start: int) -> None:
        if image:
            self.world.choices.seed(f"{self.plan.seed} {self.number} image {image}")
        self._end(way)
        if calls_in_start:
            self.world.kill_later(calls_in_start)
        self._begin_again(way)

    def _end(self, way: str) -> None:
        failing, self._failing = self._failing, None
        below = failing.below if failing and self.faults.is_armed(failing) else ""
        self._mend()
        self.faults.struck = None
        if failing and failing.when == START:
            self.faults.arm(failing)
        for client in self._clients:
            client.forget()
        self.incarnation.kill(self.world.choices if way == "power" else None)
        if below:  # which took no mark of a failed fsync either, so that the next process is blind
            self.world.disk.forgive(below)

    def _begin_again(self, way: str, steps: Sequence[Step] = ()) -> None:
        """Start and judge; ``steps`` come side by side before anything else is asked for."""
        self.restarts.append(way)
        while True:
            try:
                self._start()
            except Killed:
                self.tell(f"{way} in the start")
                self.deaths_in_a_start += 1
                self._end(way)
                continue
            break
        if way != "stop":
            self.world.errors.clear()  # what is lost, or was half done, is told
        for client in self._clients:
            client.forget()
        have_parts(self.parts, "restarted", way)
        self.step = ["burst", steps]
        self._do_burst(steps)
        self.step = ["judge"]
        self._do_judge()
        have_parts(self.parts, "settled")

    def _start(self) -> None:
        """Start, once more after each start in which the disk has failed."""
        while True:
            hits = self._hits_before = self.hits
            self.faults.hit_below = 0
            self.world.errors.clear()
            self.incarnation = self._new_incarnation()
            self.faults.is_lasting, self.faults.is_starting = False, True
            try:
                self.incarnation.start()
            except StartError as error:
                if hits == self.hits:
                    raise Wrong(f"the broker refuses to start: {error}") from error
                self.tell(f"refused: {error}")
            except OSError as error:
                raise Wrong(f"the broker ends its start without a word: {error}") from error
            self.faults.is_starting = False
            if hits == self.hits:
                break
            self.failed_starts += 1
            self._end("kill")
        self.world.kill_after = None
        self._forgiven = hits
        self.tell("started")

    def _look_for_failures(self) -> None:
        if self.world.failures:
            raise Wrong("; ".join(self.world.failures))
        errors, self.world.errors[:] = self.world.errors[:], []
        if errors and self.is_sound and self.hits == self._hits_before:
            raise Wrong(f"an error is logged, although the disk works: {errors[0]}")
        if self.incarnation.is_failed:
            raise Wrong("a task of the broker has failed, so that it ends")


def play(plan: Plan, *, is_traced: bool = False, images: int = 1) -> tuple[History, str | None]:
    """Play a plan; return the history and what was wrong, None if nothing was.

    Of each power failure so many ``images`` of the disk are judged; the history goes on from one.
    """
    history = History(plan, is_traced=is_traced, images=images)
    try:
        history.play()
    except AssertionError as error:
        return history, f"{type(error).__name__}: {error}"
    return history, None
