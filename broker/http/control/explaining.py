"""Collects the facts for explanations, one partition after the other (loop only)."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from siltstone.cleaner.explaining.explain import PartitionView, explain
from siltstone.cleaner.explaining.explanation import Explanation, OpenTransaction, Rule, SettingUsed
from siltstone.config.describe import find_broker_place, find_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from uuid import UUID

    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.config.layers import Layers
    from siltstone.storage.clock import Clock
    from siltstone.storage.log.log import Log
    from siltstone.storage.topic_partition import TopicPartition

    Queues = Mapping[tuple[UUID, int], Iterable[dict[str, Any]]]


_UNSERVED: Final = (
    "the partition is not served: its log directory is offline or missing, or its folder was "
    "found damaged by the start"
)


class Explainer:
    """Explains partitions of the running broker, in slices: each explanation takes some 50 µs."""

    def __init__(
        self,
        cleaning: Cleaning,
        topics: TopicRegistry,
        settings: BrokerSettings,
        clock: Clock,
        find_damage: Callable[[], Mapping[TopicPartition, list[str]]] = dict,
        explain_queues: Callable[[int], Queues] = lambda _now_ms: {},
    ) -> None:
        self._cleaning = cleaning
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._find_damage = find_damage
        self._explain_queues = explain_queues

    def select(self, topic: str | None, partition: int | None) -> list[tuple[Topic, int]] | None:
        """Return the named partitions, all without a topic; None if they do not exist."""
        if topic is None:
            every = self._topics.topics.values()
            return [(each, index) for each in every for index in range(each.partitions)]
        found = self._topics.topics.get(topic)
        if found is None or (partition is not None and not 0 <= partition < found.partitions):
            return None
        indexes = range(found.partitions) if partition is None else (partition,)
        return [(found, index) for index in indexes]

    def find_what_is_off(self) -> SettingUsed | None:
        """Return the setting that switches the cleaner off, None if it is on."""
        return find_what_is_off(self._settings.layers)

    def explain(self, partitions: Iterable[tuple[Topic, int]]) -> Iterator[dict[str, Any]]:
        """Yield the explanations as JSON values; topics that are deleted meanwhile are left out."""
        off = self.find_what_is_off()
        progress = dict(self._progress())
        damage = self._find_damage()
        queues = self._explain_queues(self._clock.now_ms())
        for topic, index in partitions:
            if self._topics.topics.get(topic.name) is not topic:
                continue
            log = topic.logs[index]
            if log is None:
                yield _left_out(topic.name, index, Rule.OFFLINE.value, _UNSERVED)
                continue
            try:
                answer = self._explain(topic, log, off, progress).as_json()
            except (OSError, struct.error) as error:  # struct.error: a file was truncated
                yield unreadable(topic.name, index, error)
                continue
            last = self._cleaning.pool.get().services.figures.last.get(log.topic_partition)
            answer["size_bytes"] = log.size
            answer["last_pass"] = None if last is None else last._asdict()
            if (topic.id, index) in queues:
                answer["queues"] = [*queues[topic.id, index]]
            if log.topic_partition in damage:
                answer["damage"] = damage[log.topic_partition]
            yield answer

    def _explain(
        self,
        topic: Topic,
        log: Log,
        off: SettingUsed | None,
        progress: Mapping[TopicPartition, str],
    ) -> Explanation:
        manager = self._cleaning.manager
        topic_partition = log.topic_partition
        return explain(
            PartitionView(
                snapshot=manager.snapshot(log),
                now_ms=self._clock.now_ms(),
                find_place=partial(find_place, self._settings.layers, topic.overrides),
                state=manager.states.get(topic_partition),
                failure=manager.failure(topic_partition),
                is_requested=manager.is_requested(topic_partition),
                last_pass=self._cleaning.pool.get().services.figures.last.get(topic_partition),
                transaction=OpenTransaction.first_of(log.producers.open_transactions),
                cleaner_off=off,
                offline=log.directory.failure,
                progress=progress.get(topic_partition),
            )
        )

    def _progress(self) -> Iterator[tuple[TopicPartition, str]]:
        for thread in self._cleaning.pool.get().threads:
            progress = thread.progress
            if progress is not None:
                done, total = progress.bytes_done, progress.bytes_total
                words = f"{progress.phase}, {done} of {total} bytes, in thread {thread.name}"
                yield progress.topic_partition, words


def find_what_is_off(layers: Layers) -> SettingUsed | None:
    """Return the setting that switches the cleaner off, None if it is on."""
    server = layers.server()
    if not server.log_cleaner_enable:
        name, value = "log.cleaner.enable", "false"
    elif not server.log_cleaner_threads:
        name, value = "log.cleaner.threads", "0"
    else:
        return None
    return SettingUsed(name, value, find_broker_place(layers, name))


def unreadable(topic: str, partition: int, error: Exception) -> dict[str, Any]:
    """Return the explanation of a partition whose folder cannot be read."""
    return _left_out(topic, partition, "unreadable", f"its folder cannot be read: {error}")


def _left_out(topic: str, partition: int, rule: str, because: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "rule": rule,
        "eligible": False,
        "because": because,
        "next_eligible_ms": None,
    }
