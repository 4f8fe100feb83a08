"""Clients of the simulated broker and what they record: histories to try the checker on.

Every answer may get lost, with what was asked for done or not. A fault that is planted in the
broker goes unnoticed by all: the history is wrong in one thing and consistent in the others.
"""

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from random import Random

from tests.tools.checker.simulated_broker import IN, OUT, Broker, Stored
from tools.checker.events import (
    Aborted,
    Acknowledged,
    AskCommit,
    Attempt,
    Bounds,
    Change,
    Changed,
    Committed,
    CommittedOffset,
    Event,
    Marker,
    Partition,
    Position,
    Reached,
    Read,
    RecordId,
    Seek,
    Shape,
    Shown,
    Thing,
    Value,
)

PRODUCERS = ("ann", "bob")
ROUNDS = 16


class Fate(Enum):
    """The fate of a request."""

    ANSWERED = 0
    UNANSWERED = 1
    DROPPED = 2


class Simulation:
    """Two producers, a copier with transactions, a group, topics, and an auditor."""

    def __init__(self, random: Random, plant: "Callable[[Simulation], bool] | None" = None) -> None:
        self.random = random
        self.broker = Broker()
        self.history: list[Event] = []
        self._plant = plant
        self._sent: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, list[tuple[Partition, list[Stored]]]] = defaultdict(list)
        self._audited: dict[Partition, int] = dict.fromkeys(self.broker.logs, 0)
        self._transactions = 0

    @property
    def is_planted(self) -> bool:
        """Tell whether the fault has found its opportunity."""
        return self._plant is None

    def run(self) -> list[Event]:
        """Return a history; the fault is planted in its second half, as soon as it can be."""
        steps = (self._produce, self._produce, self._copy, self._commit, self._change_topic)
        for number in range(ROUNDS):
            for _ in range(self.random.randrange(2, 8)):
                self.random.choice(steps)()
            if self._plant is not None and number >= ROUNDS // 2 and self._plant(self):
                self._plant = None
            self._audit()
        self._finish()
        return self.history

    def new_record(self, producer: str, partition: Partition) -> Stored:
        """Record that a plain record is sent, and return it."""
        stored = Stored(self._name(producer), self.random.getrandbits(64))
        self.history.append(Attempt(stored.record, partition, stored.content))
        return stored

    def copy_once_more(self, source: Position, stored: Stored) -> None:
        """Copy a record in a transaction, as a producer does that should have been fenced."""
        name = self._begin()
        self._attempt_copy(name, source, stored)
        self.history += [Change(self.offset_of("copier", source.partition), None, name)]
        self.history.append(AskCommit(name))
        self.broker.end_transaction(name, committed=True)

    @staticmethod
    def offset_of(group: str, partition: Partition) -> CommittedOffset:
        """Return the thing that a group commits."""
        return CommittedOffset(group, partition)

    def _produce(self) -> None:
        producer = self.random.choice(PRODUCERS)
        partition = self.random.choice(IN)
        batch = [self.new_record(producer, partition) for _ in range(self.random.randrange(1, 4))]
        self._waiting[producer].append((partition, batch))
        self._send(producer, self._fate)

    def _send(self, producer: str, fate: Callable[[], Fate]) -> None:
        """Send in order what waits for an answer; nothing goes out behind what got none."""
        while self._waiting[producer]:
            partition, batch = self._waiting[producer][0]
            outcome = fate()
            if outcome is Fate.DROPPED:
                return
            offsets = self.broker.append(partition, batch)
            if outcome is Fate.UNANSWERED:
                return
            for stored, offset in zip(batch, offsets, strict=True):
                self.history.append(Acknowledged(stored.record, offset))
            self._waiting[producer].pop(0)

    def _copy(self) -> None:
        source = self.random.choice(IN)
        thing = self.offset_of("copier", source)
        self._show(thing)
        resumed = self.broker.values.get(thing)
        start = resumed if isinstance(resumed, int) else 0
        given = self._read("copier", source, start, committed=True)
        if not given:
            return
        name = self._begin()
        for offset, stored in given:
            self._attempt_copy(name, Position(source, offset), stored)
        end = given[-1][0] + 1
        self.history.append(Change(thing, end, name))
        if self.random.random() < 0.3:
            self._abort(name)
            return
        self.history.append(AskCommit(name))
        fate = self._fate()
        self.broker.end_transaction(name, committed=fate is not Fate.DROPPED)
        if fate is not Fate.DROPPED:
            self.broker.change(thing, end)
        if fate is Fate.ANSWERED:
            self.history.append(Committed(name))
        self._show(thing)

    def _abort(self, name: str) -> None:
        """Abort a transaction, or die in it."""
        self.broker.end_transaction(name, committed=False)
        if self._fate() is Fate.ANSWERED:
            self.history.append(Aborted(name))

    def _begin(self) -> str:
        self._transactions += 1
        return f"transaction {self._transactions}"

    def _attempt_copy(self, transaction: str, source: Position, stored: Stored) -> None:
        target = self.random.choice(OUT)
        copy = Stored(self._name("copier"), stored.content, transaction)
        self.history.append(Attempt(copy.record, target, copy.content, transaction, source))
        (offset,) = self.broker.append(target, [copy])
        self.history.append(Acknowledged(copy.record, offset))

    def _commit(self) -> None:
        thing = self.offset_of("readers", self.random.choice(IN))
        before = self.broker.values.get(thing)
        position = (before if isinstance(before, int) else 0) + self.random.randrange(1, 4)
        self._change(thing, position)
        if self.random.random() < 0.5:
            self._show(thing)

    def _change_topic(self) -> None:
        thing = Shape(f"topic-{self.random.randrange(4)}")
        self._show(thing)
        count = self.broker.values.get(thing)
        larger = (count if isinstance(count, int) else 0) + 1
        self._change(thing, larger if count is None or self.random.random() < 0.5 else None)

    def _change(self, thing: Thing, value: Value) -> None:
        self.history.append(Change(thing, value))
        fate = self._fate()
        if fate is not Fate.DROPPED:
            self.broker.change(thing, value)
        if fate is Fate.ANSWERED:
            self.history.append(Changed(thing, value))
        else:
            self._show(thing)

    def _show(self, thing: Thing) -> None:
        self.history.append(Shown(thing, self.broker.values.get(thing), settled=True))

    def _audit(self) -> None:
        for partition, log in self.broker.logs.items():
            self.history.append(Bounds(partition, 0, len(log)))
            self._read("auditor", partition, self._audited[partition], committed=False)
            self._audited[partition] = len(log)
        for thing in self.broker.values:
            self._show(thing)

    def _finish(self) -> None:
        for producer in PRODUCERS:
            self._send(producer, lambda: Fate.ANSWERED)
        self._audit()
        for partition in self.broker.logs:
            for committed in (False, True):
                self._read("judge", partition, 0, committed=committed)
        self.history += (Marker(*position) for position in self.broker.markers())

    def _read(
        self, reader: str, partition: Partition, start: int, *, committed: bool
    ) -> list[tuple[int, Stored]]:
        given = self.broker.read(partition, start, committed=committed)
        self.history.append(Seek(reader, partition, start, committed))
        for offset, stored in given:
            self.history.append(Read(reader, partition, offset, stored.record, stored.content))
        self.history.append(Reached(reader, partition, len(self.broker.logs[partition])))
        return given

    def _name(self, producer: str) -> RecordId:
        self._sent[producer] += 1
        return RecordId(producer, self._sent[producer])

    def _fate(self) -> Fate:
        return self.random.choices(list(Fate), (6, 2, 2))[0]
