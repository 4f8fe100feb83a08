"""One broker on the wire, and what a history is to the parts that play on it."""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from random import Random
from select import select
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import BY_KEY
from siltstone.protocol.messages.api_versions import ApiVersionsRequest
from siltstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from siltstone.protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.protocol.messages.describe_transactions import DescribeTransactionsRequest
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.simulator.model.log import Wrong
from tests.simulator.parts import PARTS, have_parts
from tests.simulator.wire import LOST, Gone, Question, ask, row_for
from tests.support.kafka import KafkaBroker
from tests.support.ports import address_of
from tests.support.side_by_side import MASKED, Reading, codes_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.simulator.history import Action, Plan, Step
    from tests.support.oracle import Broker

_PATIENCE_SECONDS: Final = 20.0
_AHEAD_MS: Final = 600_000
"""So much newer are records than the markers of brokers, which have a time of their own."""
_JOIN, _DESCRIBE_GROUPS, _API_VERSIONS, _CREATE = 11, 15, 18, 19
_DELETE_RECORDS, _INIT, _END_TXN, _DESCRIBE, _ALTER, _DESCRIBE_TRANSACTIONS = 21, 22, 26, 32, 44, 65
_CHANGES: Final = {_CREATE, 20, 29, 30, 31, 33, 37, _ALTER, 49, 51}
"""Requests after which Kafka's broker learns a moment later what its controller has done."""
_ENDS: Final = {_INIT, _END_TXN}
"""Requests after which Kafka writes markers a moment later."""
_OVER: Final = {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "Dead", ""}
_TIMES: Final = frozenset({"timestamp", "generation_id_or_member_epoch"})
"""A lookup may find a marker, which has a broker's own time; epochs may be those of `_BEATS`."""
_BEATS: Final = {68, 69}
"""Requests of which errors alone are compared: assignments go by the ids of topics."""
_GROUP, _TIMEOUT = 32, "consumer.session.timeout.ms"
_SEGMENT, _INTERNAL = "segment.bytes", "internal.segment.bytes"
_OWN: Final = re.compile(r"(apples|pears|plums|ants|bees|wasps|larks|kites|owls|rooks|txn-\d+)")
"""Names of which each history has its own."""
_OTHERS: Final = re.compile(r"h\d+\.")
_CODES: Final = {1: {3: 100, 103: 100}}
"""By API, errors of Kafka for which ``docs/compatibility.md`` names another one of ours."""
_LAST_BY_NAME: Final = 12
_HIDDEN_SECONDS: Final = 0.5


class Caller:
    """A client with one connection at a time; an answer is read when somebody waits for it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._socket: socket.socket | None = None
        self._waiting: deque[tuple[Question, Any]] = deque()
        self._correlation_id = 0
        self._has_unanswered = False

    def send(
        self, key: int, row: Any, version: int | None = None, *, is_answered: bool = True
    ) -> Question:
        """Send a request by the newest version unless one is given."""
        if self._socket is None:
            self._socket = socket.create_connection(self._side.address, _PATIENCE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._greet()
        row = row_for(key, row)
        self._correlation_id += 1
        question, frame = ask(key, self._side.spoken(row), version, self._correlation_id)
        self._side.begin()
        self._socket.sendall(frame)
        self._side.owners[question] = self
        if is_answered:
            self._waiting.append((question, row))
        else:
            self._side.note(question, row)
            self._has_unanswered = True
        if key == _JOIN and (row.member_id or row.group_instance_id):
            self._await_member(row)
        return question

    def _await_member(self, row: Any) -> None:
        """Wait until a member has joined, or is refused: the next one comes behind it.

        Kafka describes a group only when anything was written to its partition behind the join.
        """
        asked = DescribeGroupsRequest([self._side.spoken(row.group_id)])
        hidden_until = time.monotonic() + _HIDDEN_SECONDS
        member, asker = row.group_instance_id or row.member_id, self._socket
        assert asker is not None

        def has_come(told: Any) -> bool:
            group = told.groups[0]
            members = [(each.group_instance_id, each.member_id) for each in group.members]
            is_answered = bool(select([asker], (), (), 0)[0])
            is_known = any(member in each for each in members)
            is_hidden = group.group_state == "Dead" and time.monotonic() > hidden_until
            return (
                is_answered or is_hidden or (is_known and group.group_state == "PreparingRebalance")
            )

        self._side.insist(_DESCRIBE_GROUPS, asked, has_come)

    def wait(self, question: Question) -> None:
        """Read answers up to the one to a question."""
        while question.answer is None:
            head = self._receive(4)
            if head is None:
                self.forget()
                return
            frame = self._receive(int.from_bytes(head, "big")) or b""
            at = int.from_bytes(frame[:4], "big")
            asked, row = next(each for each in self._waiting if each[0].correlation_id == at)
            self._waiting.remove((asked, row))
            asked.read(head + frame)
            asked.answer = self._side.heard(asked)
            self._side.note(asked, row)

    def _receive(self, size: int) -> bytes | None:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except TimeoutError as error:
                waiting = [(each.key, row) for each, row in self._waiting]
                raise Wrong(f"no answer in {_PATIENCE_SECONDS} s to {waiting}") from error
            except ConnectionError:
                return None
            if not more:
                return None
            data += more
        return data

    def drain(self) -> None:
        """Wait until requests without answers have been served."""
        if self._has_unanswered and self._socket is not None:
            self._greet()
        self._has_unanswered = False

    def _greet(self) -> None:
        """Ask what is answered only when all that came before has been read."""
        asked = self.send(_API_VERSIONS, ApiVersionsRequest("beside", "1"), 3)
        del self._side.owners[asked]
        self.wait(asked)

    def reset(self) -> None:
        """Break the connection off when all answers are on their way, so that they are lost."""
        for question, _ in list(self._waiting):
            self.wait(question)
            question.answer = LOST
        self.drain()
        self.forget()

    def forget(self) -> None:
        """Give the connection up; what has no answer is lost."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        for question, row in self._waiting:
            question.answer = LOST
            self._side.note(question, row)
        self._waiting.clear()


class Side:
    """One broker, and what a history is to its parts: clients, a clock, choices, a story."""

    is_sound = True
    is_over = is_killed = False
    hits = 0

    @staticmethod
    def is_sure(*_: Any) -> bool:
        """Tell that a batch stays: the power does not fail."""
        return True

    @staticmethod
    def find_segments(*_: Any) -> dict[int, int]:
        """Return nothing: no broker has its files looked at."""
        return {}

    def __init__(self, plan: Plan, broker: Broker, now_ms: int) -> None:
        self.plan = plan
        self.address = address_of(broker.bootstrap)
        self.is_kafka = isinstance(broker, KafkaBroker)
        self.logs = broker.folder if self.is_kafka else None
        self.rng = Random(plan.seed)
        self.step: Step = []
        self.number = -1
        self.base_ms = now_ms + _AHEAD_MS
        self._began: float | None = None
        self._prefix = f"h{plan.seed}."
        self._reading = Reading(MASKED | _TIMES, defaults=False)
        self._said = 0
        self.owners: dict[Question, Caller] = {}
        self._callers: list[Caller] = []
        self._helper = Caller(self)
        self.story: list[str] = []
        self.noted: list[tuple[str, Any, Any]] = []
        """The questions of this step with their answers."""
        self.parts = {name: PARTS[name](self, plan.parts[name]) for name in plan.parts}

    # What parts use.

    @property
    def now_ms(self) -> int:
        """When the step began, the same on both sides, and what has passed since it asked."""
        passed = 0.0 if self._began is None else time.monotonic() - self._began
        return self.base_ms + int(passed * 1000)

    def client(self, **_: Any) -> Caller:
        """Return a new client."""
        self._callers.append(Caller(self))
        return self._callers[-1]

    def beside(self, own: Caller, *, keeps: bool = False) -> Caller:
        """Return a part's own client: nothing is played beside its steps."""
        del keeps
        return own

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(line)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something when some time has passed; nothing else is played meanwhile."""
        self.let_pass(seconds)
        act()

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.begin()
        time.sleep(seconds)

    def begin(self) -> None:
        """Have time pass from now on."""
        self._began = time.monotonic() if self._began is None else self._began

    def run(self, actions: Iterable[Action]) -> None:
        """Run actions one after the other."""
        try:
            for action in actions:
                for asked in action:
                    if asked.answer is None:
                        self.owners[asked].wait(asked)
        except Gone as error:
            raise Wrong(f"a connection was closed without an answer to {error}") from error

    # Playing.

    def prepare(self) -> None:
        """Wait until the coordinators serve."""
        for kind in (0, 1):
            row = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any", "other"])
            self.insist(10, row, lambda it: not any(each.error_code for each in it.coordinators))
        for group in ("ants", "bees", "wasps", "larks"):
            fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group)])
            self.insist(9, fetch, lambda it: not it.groups[0].error_code)
        for name in (None, "any", "other", "third"):
            self.insist(_INIT, InitProducerIdRequest(name, 9000), lambda it: not it.error_code, 4)

    def play(self, number: int, step: Step, now_ms: int) -> None:
        """Play a step; what was asked and answered is in `noted`."""
        self.number, self.step, self.base_ms, self._began = number, step, now_ms, None
        self.noted = []
        self.rng.seed(f"{self.plan.seed} {number}")
        self.tell(" ".join(map(str, step)))
        if step[0] == "setup":
            self.run(have_parts(self.parts, "set_up"))
        elif step[0] == "judge":
            have_parts(self.parts, "judge")
        elif step[0] == "wait":
            self.let_pass(step[1])
        else:
            part = next(each for each in self.parts.values() if step[0] in each.WEIGHTS)
            self.run([part.play(*step)])
        for each in self._callers:
            each.drain()
        self.owners.clear()

    def close(self) -> None:
        """End the connections."""
        for each in (*self._callers, self._helper):
            each.forget()

    # What goes over the wire.

    def spoken(self, value: Any, name: str = "") -> Any:
        """Return a request as this broker takes it: names are of this history alone.

        Kafka has another name for the setting of segments as small as these.
        """
        if isinstance(value, list | tuple):
            row = [self.spoken(*each) for each in _fields(value)]
            is_small = self.is_kafka and _SEGMENT in row and row[-1] != "2"
            row = [_INTERNAL if is_small and each == _SEGMENT else each for each in row]
            return row if isinstance(value, list) else type(value)(*row)
        if name == "subscribed_topic_regex" and value:
            return f"{re.escape(self._prefix)}({value})"
        is_own = isinstance(value, str) and _OWN.fullmatch(value)
        return f"{self._prefix}{value}" if is_own else value

    def heard(self, asked: Question) -> Any:
        """Return an answer with the names and errors that clients of our broker know."""
        codes = _CODES.get(asked.key, {}) if self.is_kafka and asked.version > _LAST_BY_NAME else {}
        return self._heard(asked.answer, codes)

    def _heard(self, value: Any, codes: Mapping[int, int], name: str = "") -> Any:
        if isinstance(value, list | tuple):
            row = [
                self._heard(each, codes, named)
                for each, named in _fields(value)
                if not self._is_foreign(each)
            ]
            if any(_is_setting(each, _INTERNAL) for each in row):
                row = [
                    each._replace(name=_SEGMENT) if _is_setting(each, _INTERNAL) else each
                    for each in row
                    if not _is_setting(each, _SEGMENT)
                ]
            return _joined(row) if isinstance(value, list) else _mended(type(value)(*row))
        if name == "error_code":
            return codes.get(value, value)
        return value.removeprefix(self._prefix) if isinstance(value, str) else value

    def _is_foreign(self, row: Any) -> bool:
        """Tell whether a row is of another history."""
        names = (getattr(row, each, None) or "" for each in ("name", "transactional_id"))
        return any(_OTHERS.match(name) and not name.startswith(self._prefix) for name in names)

    def note(self, asked: Question, row: Any) -> None:
        """Note a request with its answer; wait until Kafka has done what it does behind it."""
        if self.owners.get(asked, self._helper) is self._helper:
            return
        what = f"{BY_KEY[asked.key].name} v{asked.version}"
        told = "lost" if asked.answer is LOST else self._reading.read(asked.answer)
        if asked.key not in _BEATS:
            self.noted.append((what, self._reading.read(row), told))
        elif self.step[0] != "judge":  # where members beat until they are at rest
            self.noted.append((what, None, codes_of(told)))
        if asked.key in _CHANGES and self.is_kafka:
            self._settle()
            self._settle()
        elif asked.key == _DELETE_RECORDS and self.logs is not None:
            for topic in asked.answer.topics:
                for each in topic.partitions:
                    name = f"{self._prefix}{topic.name}-{each.partition_index}"
                    self._await_deletion(self.logs / name, each.low_watermark)
        elif asked.key in _ENDS and row.transactional_id:
            described = DescribeTransactionsRequest([row.transactional_id])
            self.insist(
                _DESCRIBE_TRANSACTIONS,
                described,
                lambda it: it.transaction_states[0].transaction_state in _OVER,
            )

    def insist(
        self, key: int, row: Any, holds: Callable[[Any], object], version: int | None = None
    ) -> None:
        """Ask until an answer holds."""

        def look() -> Any:
            asked = self._helper.send(key, row, version)
            self._helper.wait(asked)
            return asked.response

        wait_until(look, f"API {key} to be served", holds)

    @staticmethod
    def _await_deletion(folder: Path, start: int) -> None:
        """Wait until no segment is left whose records are all below a log's start."""
        wait_until(
            lambda: sorted(int(each.stem) for each in folder.glob("*.log")),
            f"one segment of {folder.name} up to {start}",
            lambda bases: len(bases) < 2 or bases[1] > start,
        )

    def _settle(self) -> None:
        """Wait until the broker knows of a change that comes behind all others."""
        self._said += 1
        value = str(45_000 + self._said % 200_000)
        change = AlterConfigsResource(_GROUP, "barrier", [AlterableConfig(_TIMEOUT, 0, value)])
        self.insist(
            _ALTER, IncrementalAlterConfigsRequest([change]), lambda it: not it.responses[0][0]
        )
        asked = DescribeConfigsRequest([DescribeConfigsResource(_GROUP, "barrier", [_TIMEOUT])])
        self.insist(_DESCRIBE, asked, lambda it: it.results[0].configs[0].value == value)


def _fields(value: Any) -> Iterator[tuple[Any, str]]:
    names = getattr(value, "_fields", None)
    return zip(value, names or [""] * len(value), strict=True)


def _joined(rows: list[Any]) -> list[Any]:
    """Return rows of AddPartitionsToTxn with each topic once, as in our answers."""
    if not rows or "results_by_partition" not in getattr(rows[0], "_fields", ()):
        return rows
    found: dict[str, list[Any]] = {}
    for each in rows:
        found.setdefault(each.name, []).extend(each.results_by_partition)
    return [type(rows[0])(*each) for each in found.items()]


def _mended(row: Any) -> Any:
    """Return a row with a last stable offset that is not below the log's start, as Kafka's may be.

    Where a version does not tell the start, the offset is left out.
    """
    if getattr(row, "last_stable_offset", -1) >= 0:
        start = row.log_start_offset
        least = start if start < 0 else max(row.last_stable_offset, start)
        return row._replace(last_stable_offset=least)
    return row


def _is_setting(row: Any, name: str) -> bool:
    return hasattr(row, "_fields") and "config_source" in row._fields and row.name == name
