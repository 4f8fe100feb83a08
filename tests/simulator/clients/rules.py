"""Administrators of what is no topic: ACLs, users, quotas, and settings of brokers and groups.

What was acknowledged is listed exactly once after each start, and no more when it was removed. With
an authorizer a producer is refused exactly as the ACLs say. A reload of the settings changes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.simulator.clients.requests import (
    DELETE,
    DESCRIBE_CONFIGS,
    SET,
    STORAGE,
    UNKNOWN_TOPIC,
    send_alter,
    send_batch,
)
from tests.simulator.model.log import Wrong
from tests.simulator.model.settings import SettingsModel
from tests.simulator.world.network import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client, Question

_DESCRIBE_ACLS, _CREATE_ACLS, _DELETE_ACLS = 29, 30, 31
_DESCRIBE_QUOTAS, _ALTER_QUOTAS, _DESCRIBE_USERS, _ALTER_USERS = 48, 49, 50, 51
_FORBIDDEN, _NO_SUCH_USER = 29, 91
_ANY, _OF_A_TOPIC, _ALL, _WRITE, _DENY, _ALLOW = 1, 2, 2, 4, 2, 3
_LITERAL, _PREFIXED = 3, 4
_ME, _EVERYBODY, _HERE, _EVERYWHERE = "User:ANONYMOUS", "User:*", HOST, "*"
_TOPICS: Final = ("quinces", "quails")
"""No topic has these names: a producer learns that, unless a rule refuses it."""
_SOURCES: Final = {
    "broker": (4, "1", 2),
    "brokers": (4, "", 3),
    "metrics": (16, "m", 7),
    "group": (32, "g", 8),
}
_OF_BROKERS: Final = {
    "log.retention.ms": ("604800000", "1209600000"),
    "log.cleaner.backoff.ms": ("300", "2000"),
    "max.connections.per.ip": ("1000", "2000"),
    "log.index.interval.bytes": ("4096", "8192"),
    "no.such.setting": ("bad",),
}
BOOKS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "broker": _OF_BROKERS,
    "brokers": _OF_BROKERS,
    "metrics": {"interval.ms": ("1000", "60000", "bad"), "metrics": ("*", "org.apache")},
    "group": {
        "consumer.session.timeout.ms": ("45000", "50000", "bad"),
        "consumer.heartbeat.interval.ms": ("5000", "5500"),
    },
    "user": {"ann 1": ("4096", "8192", "16"), "ann 2": ("4096",), "bob 1": ("4097",)},
    "quota": {
        "user ann producer_byte_rate": ("1000.0", "5.0", "-1.0"),
        "user bob consumer_byte_rate": ("1000.0",),
        "client-id me request_percentage": ("200.0",),
        "ip 10.0.0.9 connection_creation_rate": ("7.0",),
    },
}
_BAD: Final = {"bad", "16", "-1.0", "ann"}


_AND: Final = "; "


def _rule(text: str) -> tuple[Any, ...]:
    """Return the row of a rule; it is one of a topic unless it ends with another kind."""
    name, pattern, principal, where, what, does, *kinds = text.split(" ")
    kind = int(kinds[0]) if kinds else _OF_A_TOPIC
    return kind, name, int(pattern), principal, where, int(what), int(does)


def _text(of: Any, rule: Any) -> str:
    kind = () if of.resource_type == _OF_A_TOPIC else (of.resource_type,)
    return " ".join(map(str, (of.resource_name, of.pattern_type, *rule, *kind)))


class _Missing(NamedTuple):
    name: str
    topic_id: bytes


class Rules:
    """Books of keys and values, one for each kind of thing that administrators write down."""

    WEIGHTS: Final = {"rule": 2, "rules": 0.5, "obey": 1, "reload": 0.2}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return whether there are such administrators, and an authorizer: often none."""
        return rng.choice(({}, {}, {"authorizes": False}, {"authorizes": True}))

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the settings of an authorizer that refuses only by rules."""
        if not drawn.get("authorizes"):
            return []
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        return [f"authorizer.class.name={name}", "allow.everyone.if.no.acl.found=true"]

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which book, and what is written into it: of rules several, or one."""
        book = rng.choice(("acl", "acl", *BOOKS))
        if kind == "obey":
            return [rng.choice(_TOPICS)]
        if kind != "rule":
            return [book]
        if book == "acl":
            name, pattern = rng.choice((("quinces", _LITERAL), ("qu", _PREFIXED), ("quails", 3)))
            principal = rng.choice((_ME, _ME, _EVERYBODY, "User:ann", "ann"))
            where = rng.choice((_EVERYWHERE, _HERE, "127.0.0.1"))
            what, does = rng.choice((_WRITE, _WRITE, _ALL, 3)), rng.choice((_DENY, _ALLOW))
            return [
                book,
                f"{name} {pattern} {principal} {where} {what} {does}",
                rng.choice(("", None)),
            ]
        key = rng.choice(list(BOOKS[book]))
        return [book, key, rng.choice((*BOOKS[book][key], None))]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self.authorizes = drawn.get("authorizes", False)
        names = [each for each in ("acl", *BOOKS) if each != "acl" or self.authorizes]
        self._books = {each: SettingsModel({}, 1) for each in names} if drawn else {}
        self._client = history.client()
        self._stale: dict[str, None] = {}
        """Books whose file may have a refused change: the disk may refuse the old text, too."""

    def play(self, kind: str, *rest: Any) -> Action:
        """Play a step."""
        client = self._history.beside(self._client)
        if kind == "reload":
            return self._reload()
        if kind == "obey":
            return self._obey(client, *rest)
        return self._change(client, *rest) if kind == "rule" else self._list(client, *rest)

    def restarted(self, way: str) -> None:
        """Note that nothing is on its way any more."""
        for model in self._books.values():
            model.restarted()
        self._stale.clear()

    # Steps.

    def _change(self, client: Client, book: str, key: str, value: str | None) -> Action:
        if book not in self._books:
            return
        model = self._books[book]
        changes: dict[str, str | None] = dict.fromkeys(key.split(_AND), value)
        before, change = model.possible, model.begin(changes)
        known = model.may_be(key)
        model.unsure(changes)
        asked = self._ask(client, book, key, value)
        yield asked
        if asked.is_lost:
            return
        answer = next(each for each in asked.answer if isinstance(each, (list, tuple)))[0]
        error = answer.error_code
        self._history.tell(f"  {book} {key} {value}: {error}")
        if error == STORAGE and not self._history.is_sound:
            self._stale[book] = None
            return
        may_lack = None in known or key in change.crossed
        is_bad = value in _BAD or (book == "acl" and " ann " in key and value is not None)
        if error == 0 and not is_bad:
            model.acknowledged(change, changes)
        elif error and (is_bad or (error == _NO_SUCH_USER and value is None and may_lack)):
            model.refused(change, before)
        elif key != "no.such.setting":
            raise Wrong(f"{book} {key}={value}: {error} {answer.error_message}")

    def _ask(self, client: Client, book: str, key: str, value: str | None) -> Question:
        if book == "acl":
            kind_of = _CREATE_ACLS if value is not None else _DELETE_ACLS
            return client.send(kind_of, (list(map(_rule, key.split(_AND))),))
        if book == "user":
            user, code = key.split(" ")
            if value is None:
                return client.send(_ALTER_USERS, ([(user, int(code))],))
            secret = (int(value), b"salt", bytes(32 * int(code)))
            return client.send(_ALTER_USERS, ([], [(user, int(code), *secret)]))
        if book == "quota":
            kind, name, what = key.split(" ")
            change = (what, float(value or 0), value is None)
            return client.send(_ALTER_QUOTAS, ([([(kind, name)], [change])],))
        number, name, _ = _SOURCES[book]
        rows = [(key, DELETE if value is None else SET, value)]
        return send_alter(client, number, name, rows)

    def _list(self, client: Client, book: str) -> Action:
        """Compare all of a book with the model; beside other changes it may be of before."""
        if book not in self._books:
            return
        asked = self._send_list(client, book)
        yield asked
        if asked.is_lost or self._history.step[0] == "burst":
            return
        rows = self._read_list(book, asked.answer)
        if len(dict(rows)) < len(rows):
            raise Wrong(f"{book} has something twice: {rows}")
        try:
            is_settled = self._history.step[0] == "judge" and book not in self._stale
            self._books[book].told(dict(rows), is_settled=is_settled)
        except Wrong as error:
            raise Wrong(f"{book}: {error}") from error

    @staticmethod
    def _send_list(client: Client, book: str) -> Question:
        if book == "acl":
            return client.send(_DESCRIBE_ACLS, (_ANY, None, _ANY, None, None, _ANY, _ANY))
        if book == "user":
            return client.send(_DESCRIBE_USERS, (None,))
        if book == "quota":
            return client.send(_DESCRIBE_QUOTAS, ([], False))
        return client.send(DESCRIBE_CONFIGS, ([(*_SOURCES[book][:2], None)],))

    @staticmethod
    def _read_list(book: str, answer: Any) -> list[tuple[str, str]]:
        if book == "acl":
            return [(_text(each, rule), "") for each in answer.resources for rule in each.acls]
        if book == "user":
            return [
                (f"{each.user} {info.mechanism}", str(info.iterations))
                for each in answer.results
                for info in each.credential_infos
            ]
        if book == "quota":
            return [
                (f"{of.entity_type} {of.entity_name} {each.key}", str(each.value))
                for entry in answer.entries
                for of in entry.entity
                for each in entry.values
            ]
        (told,) = answer.results
        return [
            (each.name, each.value)
            for each in told.configs
            if each.name in BOOKS[book] and each.config_source == _SOURCES[book][2]
        ]

    def _obey(self, client: Client, name: str) -> Action:
        """Produce to a topic that does not exist: whether a rule refuses it comes first."""
        before = self._may_write(name)
        batch = build_batch([Record(0, 0, b"k", b"v")])
        asked = send_batch(client, _Missing(name, b""), 0, batch)
        yield asked
        if asked.is_lost:
            return
        error = asked.answer.responses[0].partition_responses[0].error_code
        may = self._may_write(name)
        wanted = {None: (UNKNOWN_TOPIC, _FORBIDDEN), True: (UNKNOWN_TOPIC,), False: (_FORBIDDEN,)}
        if error not in wanted[may if before == may and self._history.step[0] != "burst" else None]:
            raise Wrong(f"a producer to {name} got error {error}; may it write: {may}")

    def _may_write(self, name: str) -> bool | None:
        """Tell whether a client may write to a topic; None while a rule is not sure."""
        if not self.authorizes:
            return True
        book, found, has_rules = self._books["acl"], set(), False
        for key, values in book.possible.items():
            of, pattern, principal, where, what, does, *_ = key.split(" ")
            if (name.startswith(of) if int(pattern) == _PREFIXED else name == of) and "" in values:
                if len(values) > 1:
                    return None
                has_rules = True
                if (
                    principal in {_ME, _EVERYBODY}
                    and where in {_EVERYWHERE, _HERE}
                    and int(what) in {_ALL, _WRITE}
                ):
                    found.add(int(does))
        return _DENY not in found and (_ALLOW in found or not has_rules)

    def is_free(self, rule: str) -> bool | None:
        """Tell whether a rule is missing; None if that is not sure."""
        values = self._books["acl"].may_be(rule) if self.authorizes else (None,)
        return values[0] is None if len(values) == 1 else None

    def _reload(self) -> Action:
        """Have the broker read its settings again, as SIGHUP does: nothing has changed in them."""
        if self._history.step[0] != "burst":
            self._history.reload()
        yield from ()

    # The judge.

    def judge(self) -> None:
        """Compare all books, and see what the rules make of producers."""
        client = self._history.client()
        self._history.run([self._list(client, each) for each in self._books])
        if self._books:
            self._history.run([self._obey(client, each) for each in _TOPICS])
        client.reset()
