"""Offsets of one group by several transactions at once, beside a model of Kafka's rule."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.topics.retired import RetiredNames
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.coordinator.group_records import read_key
from siltstone.protocol.messages.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from siltstone.protocol.records.journal import NO_PRODUCER, EntryKind, Producer, Row
from siltstone.storage.randomness import random_id
from tests.support.committed import new_offsets

PARTITION = 3
GROUP = "g"
PRODUCERS = [Producer(each, 0) for each in (7, 8, 9)]
STEPS = 400


class Record(NamedTuple):
    """A record of the journal, or a marker; without a value it deletes."""

    offset: int
    kind: EntryKind
    producer: int
    topic: str = ""
    number: int = 0
    value: bytes | None = None

    @property
    def key(self) -> tuple[str, int]:
        """The partition of which it has an offset."""
        return self.topic, self.number


class Model:
    """Kafka's OffsetMetadataManager: of what counts, the record that stands last wins."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, int], Record] = {}
        self.pending: dict[int, dict[tuple[str, int], Record]] = {}

    def replay(self, record: Record) -> None:
        """Take the next record."""
        key = record.key
        if record.kind >= EntryKind.ABORT:
            for waits in self.pending.pop(record.producer, {}).values():
                before = self.committed.get(waits.key)
                is_last = before is None or waits.offset > before.offset
                if record.kind == EntryKind.COMMIT and is_last:
                    self.committed[waits.key] = waits
        elif record.value is None:
            self.committed.pop(key, None)
            for each in self.pending.values():
                each.pop(key, None)
        elif record.kind == EntryKind.PLAIN:
            self.committed[key] = record
        else:
            self.pending.setdefault(record.producer, {})[key] = record

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        for each in (self.committed, *self.pending.values()):
            for key in [key for key in each if key[0] == topic]:
                del each[key]

    def read(self) -> dict[tuple[str, int], bytes | None]:
        """Return what is committed."""
        return {key: each.value for key, each in self.committed.items()}


class Life:
    """A table of offsets and its journal, a random step at a time, beside the model."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.journal: list[Record] = []
        self.model = Model()
        self.topics = {name: Topic(name, random_id(), ()) for name in "ab"}
        self.retired = RetiredNames(self.topics)
        self.table = Offsets(self._write, retired=self.retired)
        self._count = 0

    def _write(self, partition: int, rows: Sequence[Row], producer: Producer) -> int:
        assert partition == PARTITION
        kind = EntryKind.PLAIN if producer == NO_PRODUCER else EntryKind.TRANSACTIONAL
        for key, value in rows:
            named = read_key(key)
            assert isinstance(named, OffsetCommitKey)
            self._note(kind, producer.id, named.topic, named.partition, value)
        return 0

    def _note(self, kind: EntryKind, producer: int, *said: object) -> None:
        record = Record(len(self.journal), kind, producer, *said)  # type: ignore[arg-type]
        self.journal.append(record)
        self.model.replay(record)

    def replace_topic(self) -> None:
        """Delete a topic and make another one of its name: the model forgets what it had."""
        name = self.chance.choice("ab")
        self.retired.update({name: self.topics[name].id})
        self.topics[name] = Topic(name, random_id(), ())
        self.model.forget(name)

    def walk(self) -> None:
        """Delete the offsets of deleted topics, of which the model has none."""
        self.table.delete_old(GROUP, PARTITION, self.retired.names)
        if self.chance.random() < 0.5:
            self.retired.remove(self.retired.copy())

    def step(self) -> None:
        """Do something."""
        stage, plain, delete = self._stage, self._commit, self._delete
        act: Callable[[], None] = self.chance.choice([stage, stage, stage, plain, delete, self.end])
        act()

    def _new(self) -> list[tuple[str, int, OffsetCommitValue]]:
        self._count += 1
        indexes = self.chance.sample(range(3), self.chance.randrange(1, 3))
        said = OffsetCommitValue(self._count, -1, "x" * self.chance.randrange(60), 1_000)
        return [(self.chance.choice("ab"), index, said) for index in indexes]

    def _stage(self) -> None:
        producer = self.chance.choice(PRODUCERS)
        self.table.append_transactional(GROUP, PARTITION, new_offsets(*self._new()), producer)

    def _commit(self) -> None:
        self.table.append(GROUP, PARTITION, new_offsets(*self._new()))

    def _delete(self) -> None:
        self.table.delete(GROUP, PARTITION, [(self.chance.choice("ab"), self.chance.randrange(3))])

    def end(self) -> None:
        """End a transaction."""
        self._end(self.chance.choice(PRODUCERS).id)

    def end_all(self) -> None:
        """End all transactions."""
        for producer in self.chance.sample(PRODUCERS, len(PRODUCERS)):
            self._end(producer.id)

    def _end(self, producer_id: int) -> None:
        is_commit = self.chance.random() < 0.7
        self._note(EntryKind.COMMIT if is_commit else EntryKind.ABORT, producer_id)
        self.table.complete(PARTITION, producer_id, is_commit=is_commit)


def read(table: Offsets) -> dict[tuple[str, int], bytes | None]:
    """Return what a table has committed."""
    topics = table.topics(GROUP).items()
    return {(topic, index): each for topic, found in topics for index, each in found.items()}


def replayed(journal: list[Record], retired: RetiredNames | None = None) -> Offsets:
    """Return the table that a start would make of a journal."""
    table = Offsets(lambda *_: 0, retired=retired)
    for offset, kind, producer, topic, index, value in journal:
        del offset
        if kind >= EntryKind.ABORT:
            table.complete(PARTITION, producer, is_commit=kind == EntryKind.COMMIT)
        else:
            table.replay(PARTITION, (GROUP, topic, index), value, kind, producer)
    return table


def compacted(journal: list[Record]) -> list[Record]:
    """Return a journal of ended transactions as the cleaner leaves it: the last of each key."""
    counting: list[Record] = []
    for place, record in enumerate(journal):
        if record.kind == EntryKind.TRANSACTIONAL:
            marker = next(
                each
                for each in journal[place:]
                if each.kind >= EntryKind.ABORT and each.producer == record.producer
            )
            if marker.kind == EntryKind.ABORT:
                continue
        counting.append(record)
    last = {each.key: each.offset for each in counting if each.kind < EntryKind.ABORT}
    return [
        each for each in counting if each.kind >= EntryKind.ABORT or last[each.key] == each.offset
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_record_that_stands_last_counts(seed: int) -> None:
    """In service, read back after a restart, and read back from a journal that was compacted."""
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
        assert read(life.table) == life.model.read()
    again = replayed(life.journal)
    assert read(again) == life.model.read()
    assert again.size == life.table.size

    life.end_all()
    assert read(life.table) == life.model.read()
    for journal in (life.journal, compacted(life.journal)):
        table = replayed(journal)
        assert read(table) == life.model.read()
        assert (table.size, table.count) == (life.table.size, life.table.count)


@pytest.mark.parametrize("seed", range(20))
def test_an_offset_is_of_the_topic_that_has_the_name(seed: int) -> None:
    """Topics go and come again at any moment, and so do walks, transactions and restarts."""
    life = Life(seed)
    for number in range(STEPS):
        act = life.chance.choice([*[life.step] * 8, life.replace_topic, life.walk])
        act()
        assert read(life.table) == life.model.read()
        if not number % 10:
            assert read(replayed(life.journal, life.retired)) == life.model.read()
    life.end_all()
    assert read(life.table) == life.model.read()
    for journal in (life.journal, compacted(life.journal)):
        assert read(replayed(journal, life.retired)) == life.model.read()
