"""An ordinary group's member: it reads, commits, and goes on where the group had committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.load import CONNECTION
from tests.support.waiting import PATIENCE, wait_until
from tools.checker.events import Change, Changed, CommittedOffset, Partition, Seek, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.ledger import Ledger

GROUP = "followers"
MAX_RECORDS = 50


class Follower:
    """The only member of a group; a successor takes its place when it is `replace`d.

    A commit without an answer may still be on its way when the next one goes out, so what shows
    need not be the last that was asked for, but nothing from before the last answer.
    """

    def __init__(self, bootstrap: str, ledger: Ledger, partitions: Sequence[Partition]) -> None:
        self.commits = 0
        self.resumed = 0
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._partitions = {(each.topic, each.number): each for each in partitions}
        self._leaves = False
        self._consumer = self._join()

    def step(self) -> None:
        """Read some records and commit behind them, if there is an assignment.

        One at a time: a new assignment is told between two records, not behind a number of them.
        """
        ends: dict[Partition, int] = {}
        for _ in range(MAX_RECORDS):
            message = self._consumer.poll(0.02)
            if message is None:
                break
            if message.error() is not None:
                continue  # the coordinator is away; the client goes on by itself
            partition = self._partitions[message.topic() or "", message.partition() or 0]
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            self._ledger.read(GROUP, partition, offset, value)
            ends[partition] = offset + 1
        if ends:
            self._commit(ends)

    def replace(self) -> None:
        """Leave the group; a new member joins it."""
        self.close()
        self._leaves = False
        self._consumer = self._join()

    def close(self) -> None:
        """Leave the group."""
        self._leaves = True
        self._consumer.close()

    def _join(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 20,
                **CONNECTION,
            }
        )
        topics = sorted({each.topic for each in self._partitions.values()})
        consumer.subscribe(topics, on_assign=self._resume)
        return consumer

    def _resume(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Begin where the group has committed, and note where that is.

        A client that leaves gets an assignment that was on its way, but asks nobody any more.
        """
        if self._leaves:
            return
        take = self._ledger.checker.take
        starts = []
        for each in _committed(consumer, assigned):
            partition = self._partitions[each.topic, each.partition]
            shown = each.offset if each.offset >= 0 else None
            take(Shown(CommittedOffset(GROUP, partition), shown))
            take(Seek(GROUP, partition, shown or 0, committed=True))
            starts.append(TopicPartition(each.topic, each.partition, shown or 0))
        consumer.assign(starts)
        self.resumed += 1
        self._ledger.judge()

    def _commit(self, ends: dict[Partition, int]) -> None:
        take = self._ledger.checker.take
        for partition, end in ends.items():
            take(Change(CommittedOffset(GROUP, partition), end))
        offsets = [TopicPartition(each.topic, each.number, end) for each, end in ends.items()]
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # it is committed or it is not
        for each in done or []:
            if each.error is None:
                partition = self._partitions[each.topic, each.partition]
                take(Changed(CommittedOffset(GROUP, partition), each.offset))
                self.commits += 1


def _committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return where the group has committed; ask again while the broker is away."""
    return wait_until(
        lambda: consumer.committed(partitions, PATIENCE),
        f"the committed offsets of {GROUP}",
        lambda found: all(each.error is None for each in found),
        despite=KafkaException,
        timeout=2 * PATIENCE,
    )
