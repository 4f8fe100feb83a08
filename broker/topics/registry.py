"""The topics that exist, and the logs of their partitions (Kafka: MetadataCache and TopicsImage).

The catalogue decides which topics exist. It is written before folders are created and before they
are removed, so that after a crash a topic exists with all of its partitions or not at all.
"""

import logging
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.process.tasks import Reservations, Tasks, to_its_end
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.retired import RetiredNames, remove_from
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.topic import Form, Topic
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import (
    InvalidPartitions,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages.produce import TopicProduceData
from siltstone.protocol.names import INTERNAL_TOPICS, TopicKey, uuid_text
from siltstone.storage.directory.catalog import CatalogState, CatalogTopic
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.randomness import random_id
from siltstone.storage.topic_partition import TopicPartition, most_partitions

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class TopicRegistry:
    """Every topic by name and id, and every log by topic and partition (loop only).

    ``logs`` may also hold logs that belong to no topic; Metadata omits such logs. ``version`` grows
    with each change of topics and partitions. Such a change also empties ``listings``, which keeps
    parts of the answers about all topics, as `Topic.answers` does. A name is reserved while its
    topic is being created, altered or deleted: other requests for the name wait. ``retired`` has
    the names of deleted topics of which groups may still have offsets, until `release`; a new topic
    may have such a name. Work that has begun is completed even if its client disconnects.
    """

    def __init__(
        self,
        catalog: CatalogWriter,
        settings: BrokerSettings,
        logs: LogManager,
        cleaning: Cleaning,
        io: IoThreads,
    ) -> None:
        self.logs: dict[tuple[str, int], Log] = {}
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.retired = RetiredNames(self.topics)
        self.version = 0
        self.listings: dict[Form, list[Any]] = {}
        self._sorted_names: list[str] | None = None
        self._catalog = catalog
        self._settings = settings
        self._io = io
        self._manager = logs
        self._cleaning = cleaning
        self._names = Reservations()
        self._alike: dict[str, set[str]] = {}  # topics by their name with each "." replaced by "_"
        self._partition_count = 0
        self._coming = Counter[str]()  # partitions that are being created, by topic
        self._not_removed: set[UUID] = set()  # topics of which the manager still has old folders
        self._tasks = Tasks()
        self._deleted: list[Callable[[Topic], None]] = []
        self._before_removal: list[Callable[..., Awaitable[None]]] = []
        settings.on_change(self._reconfigure)

    @property
    def generation(self) -> int:
        """Return how often the catalogue has been written since the broker was new."""
        return self._catalog.state.generation

    def sorted_names(self) -> list[str]:
        """Return the sorted names of all topics; the list is kept until the topics change."""
        if self._sorted_names is None:
            self._sorted_names = sorted(self.topics)
        return self._sorted_names

    def names(self) -> KeysView[str]:
        """Return the names of all topics."""
        return self.topics.keys()

    def find(self, name: str) -> Topic | None:
        """Return a topic by its name."""
        return self.topics.get(name)

    def find_id(self, topic_id: UUID) -> Topic | None:
        """Return a topic by its id."""
        return self.by_id.get(topic_id.bytes)

    def on_delete(self, callback: Callable[[Topic], None]) -> None:
        """Register ``callback``; it is called with a deleted topic once no request finds it."""
        self._deleted.append(callback)

    async def release(self, deleted: Mapping[str, UUID]) -> None:
        """Forget deleted topics by name, because no group has offsets of them any more.

        The catalogue is written first: offsets that are committed later for a topic of the name
        have no id, and a start that found the name retired would treat them as the old topic's.

        Raises:
            KafkaStorageError: The catalogue could not be written; the names stay retired.
        """
        await self._catalog.commit(lambda state: remove_from(state.retired, deleted))
        self.retired.remove(deleted)

    def before_removal(self, callback: Callable[..., Awaitable[None]]) -> None:
        """Register ``callback``; it is awaited with partitions before their folders are removed."""
        self._before_removal.append(callback)

    def open(self, topics: Mapping[str, CatalogTopic]) -> None:
        """Begin to serve the topics that a start has found, by name; their logs are loaded."""
        for name, entry in topics.items():
            self._publish(name, entry)
        self.retired.update(self._catalog.state.retired)

    async def close(self) -> None:
        """Wait until all work that has begun has ended."""
        await self._tasks.finish()

    def find_log(self, key: TopicKey, partition: int) -> Log:
        """Return the log that a request names, by the name of its topic or the bytes of its id.

        Raises:
            UnknownTopicId: No topic has that id.
            UnknownTopicOrPartition: There is no such topic, or it has no such partition.
            KafkaStorageError: The partition exists and cannot be served.
        """
        found = self.get_log(key, partition)
        if found is None:
            if self.is_unserved(key, partition):
                raise KafkaStorageError("the partition's folder was found damaged by the start")
            if isinstance(key, bytes) and key not in self.by_id:
                raise UnknownTopicId
            raise UnknownTopicOrPartition
        return found

    def get_log(self, key: TopicKey, partition: int) -> Log | None:
        """Return the log that a request names, or None."""
        if isinstance(key, bytes):
            topic = self.by_id.get(key)
            if topic is None:
                return None
            key = topic.name
        return self.logs.get((key, partition))

    def name_all(self, topics: Sequence[TopicProduceData]) -> list[TopicProduceData]:
        """Return a request's topics by name instead of by id; an unknown id gets the name ""."""
        by_id = self.by_id
        return [
            each._replace(name=by_id[each.topic_id].name if each.topic_id in by_id else "")
            for each in topics
        ]

    def is_unserved(self, key: TopicKey, partition: int) -> bool:
        """Tell whether a partition exists without a log, because it was set aside or left alone."""
        topic = self.by_id.get(key) if isinstance(key, bytes) else self.topics.get(key)
        return (
            topic is not None
            and 0 <= partition < topic.partitions
            and topic.logs[partition] is None
        )

    def check_collision(self, name: str) -> None:
        """Refuse a name whose metrics would have the same names as another topic's metrics.

        Raises:
            InvalidTopic: The name of another topic differs only in having ``.`` for ``_``, or ``_``
                for ``.``.
        """
        others = self._alike.get(name.replace(".", "_"), set()) - {name}
        if others and ("." in name or "_" in name):
            raise InvalidTopic(
                f"topic {name} cannot be told from {min(others)} in the names of metrics, where "
                "'.' and '_' are the same; choose another name"
            )

    def check_count(self, name: str, partitions: int) -> None:
        """Refuse partitions with numbers too long for the names of this topic's folders.

        Raises:
            InvalidPartitions: The folders of the last partitions could not be created.
        """
        most = most_partitions(name)
        if partitions > most:
            raise InvalidPartitions(
                f"topic {name} cannot have {partitions} partitions: {most} is the most with a "
                f"name of {len(name)} characters; choose fewer, or a shorter name"
            )

    def check_room(self, name: str, partitions: int, topics: int = 1) -> None:
        """Refuse topics and partitions beyond the limits; the broker's own always pass.

        Raises:
            PolicyViolation: topics.max.count or partitions.max.count would be exceeded.
        """
        if name in INTERNAL_TOPICS:
            return
        limits = self._settings.limits
        if topics:
            limits.check(Limit.TOPICS, len(self.topics.keys() | self._coming.keys()) + topics)
        limits.check(Limit.PARTITIONS, self._partition_count + self._coming.total() + partitions)

    async def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Create a topic with a legal name and valid settings; all see it when this returns.

        Raises:
            InvalidPartitions: There cannot be folders for so many partitions.
            PolicyViolation: There would be too many topics or partitions.
            TopicAlreadyExists: The topic exists, or another request was first.
            KafkaStorageError: The disk did not take the topic; nothing of it is left.
        """
        return await self._finish(self._create(name, partitions, overrides))

    async def delete(self, topic: Topic) -> None:
        """Delete a topic: when this returns, its folders are renamed and its name is free.

        Raises:
            UnknownTopicOrPartition: Another request was first.
            KafkaStorageError: The catalogue could not be written; the topic still exists.
        """
        await self._finish(self._delete(topic))

    async def add_partitions(self, topic: Topic, count: int) -> None:
        """Raise the number of a topic's partitions to ``count``.

        Raises:
            InvalidPartitions: The topic has as many or more, or there cannot be folders for so
                many.
            PolicyViolation: There would be too many topics or partitions.
            UnknownTopicOrPartition: The topic was deleted meanwhile.
            KafkaStorageError: The disk did not take the partitions; the topic is as it was.
        """
        await self._finish(self._add_partitions(topic, count))

    async def alter(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Replace a topic's own settings with valid ones, in the same way as `edit`."""
        await self.edit(topic, lambda _: overrides)

    async def edit(
        self, topic: Topic, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Change a topic's own settings: ``change`` gets the present ones and returns the new ones.

        The new settings are in force at once, and on the disk when this returns. If ``change``
        raises, the error is passed on and nothing has changed.

        Raises:
            PolicyViolation: There would be too many bytes of settings.
            UnknownTopicOrPartition: The topic was deleted meanwhile.
            KafkaStorageError: The catalogue could not be written; the change is undone.
        """
        await self._finish(self._edit(topic, change))

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that continues if the request that began it is cancelled."""
        return await to_its_end(self._tasks.start(work, "topics"), KafkaError)

    async def _create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        async with self._names.hold(name):
            if name in self.topics:
                raise TopicAlreadyExists(f"topic {name} already exists")
            self.check_count(name, partitions)
            entry = CatalogTopic(id=random_id(), partitions=partitions, overrides=dict(overrides))
            with self._claim(name, partitions, overrides=overrides):
                await self._catalog.commit(lambda state: state.topics.update({name: entry}))
                try:
                    await self._create_logs(name, entry, range(partitions))
                except KafkaError:
                    await self._retract(name, entry, None)
                    raise
                topic = self._publish(name, entry)
        _logger.info(
            "topic created topic=%s id=%s partitions=%d", name, uuid_text(topic.id), partitions
        )
        return topic

    async def _delete(self, topic: Topic) -> None:
        async with self._names.hold(topic.name):
            self._check_current(topic)

            # Without callbacks no coordinator exists that would release the name.
            retired = {topic.name: topic.id} if self._deleted else {}

            def change(state: CatalogState) -> None:
                del state.topics[topic.name]
                state.deleted |= {topic.id}
                state.retired.update(retired)

            await self._catalog.commit(change)
            self._unpublish(topic)
            self.retired.update(retired)
            for told in self._deleted:
                told(topic)
            await self._delete_logs(topic.name, topic.id, range(topic.partitions))
        _logger.info("topic deleted topic=%s id=%s", topic.name, uuid_text(topic.id))

    async def _add_partitions(self, topic: Topic, count: int) -> None:
        async with self._names.hold(topic.name):
            self._check_current(topic)
            if count <= topic.partitions:
                raise InvalidPartitions(f"topic {topic.name} has {topic.partitions} partitions")
            self.check_count(topic.name, count)
            # The catalogue may still have partitions whose creation failed: `_retract` tries again.
            before = replace(self._catalog.state.topics[topic.name], partitions=topic.partitions)
            added = range(topic.partitions, count)
            with self._claim(topic.name, len(added), topics=0):
                await self._catalog.commit(_change(topic, partitions=count))
                try:
                    await self._create_logs(topic.name, before, added)
                except KafkaError:
                    await self._retract(topic.name, replace(before, partitions=count), before)
                    raise
                self._extend(topic, added)
        _logger.info("partitions added topic=%s partitions=%d", topic.name, count)

    @contextmanager
    def _claim(
        self,
        name: str,
        partitions: int,
        topics: int = 1,
        overrides: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[None]:
        """Count partitions that are about to exist, and a new topic's own settings."""
        self.check_room(name, partitions, topics)
        own = {} if name in INTERNAL_TOPICS else overrides
        self._coming[name] += partitions
        try:
            with self._settings.claim(name, {}, own):
                yield
        finally:
            del self._coming[name]

    async def _edit(
        self, topic: Topic, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        async with self._names.hold(topic.name):
            self._check_current(topic)
            before = topic.overrides
            overrides = dict(change(before))
            if overrides == before:
                return
            with self._settings.claim(topic.name, before, overrides):
                self._configure(topic, overrides)
                try:
                    await self._catalog.commit(_change(topic, overrides=overrides))
                except KafkaStorageError:
                    self._configure(topic, before)
                    raise

    async def _create_logs(self, name: str, entry: CatalogTopic, indexes: Iterable[int]) -> None:
        partitions = [TopicPartition(name, index) for index in indexes]
        config = self._settings.topic_config(entry.overrides)
        await create_partitions(self._manager, self._io, partitions, entry.id, config)

    async def _retract(self, name: str, entry: CatalogTopic, before: CatalogTopic | None) -> None:
        """Undo a change if not all partitions could be created; ``before`` is the old topic."""

        def change(state: CatalogState) -> None:
            if before is None:
                del state.topics[name]
                state.deleted |= {entry.id}
            else:
                state.topics[name] = replace(state.topics[name], partitions=before.partitions)

        try:
            await self._catalog.commit(change)
        except KafkaStorageError:
            self._catalog.defer(change)
        first = 0 if before is None else before.partitions
        await self._delete_logs(name, entry.id, range(first, entry.partitions))

    async def _delete_logs(self, name: str, topic_id: UUID, indexes: Iterable[int]) -> None:
        """Remove folders; if a disk fails, the next start removes the rest by their topic id."""
        partitions = [TopicPartition(name, index) for index in indexes]
        there = [each for each in partitions if self._manager.has_folder(each)]
        for told in self._before_removal:
            await told(*there)
        try:
            await self._io.run(self._cleaning.delete, *there)
        except (KafkaStorageError, RuntimeError) as error:
            _logger.error("folders still exist topic=%s: %s", name, error)  # noqa: TRY400
            if isinstance(error, RuntimeError):  # no thread was left to try it
                self._not_removed.add(topic_id)
            return
        if topic_id not in self._not_removed and not self._manager.has_remains(name):
            self._catalog.defer(lambda state: _forget(state, topic_id))

    def _publish(self, name: str, entry: CatalogTopic) -> Topic:
        logs = self._manager.logs
        topic = Topic(
            name,
            entry.id,
            tuple(logs.get(TopicPartition(name, index)) for index in range(entry.partitions)),
        )
        self._configure(topic, entry.overrides)
        self.topics[name] = self.by_id[topic.key] = topic
        self._partition_count += topic.partitions
        self._alike.setdefault(name.replace(".", "_"), set()).add(name)
        self._list_logs(topic)
        return topic

    def _unpublish(self, topic: Topic) -> None:
        """Hide a topic from all requests, and release the fetches that wait for its records.

        Batches that wait are written while their logs are still open.
        """
        self._manager.services.appends.write()
        del self.topics[topic.name], self.by_id[topic.key]
        self._partition_count -= topic.partitions
        alike = self._alike[topic.name.replace(".", "_")]
        alike.remove(topic.name)
        if not alike:
            del self._alike[topic.name.replace(".", "_")]
        self._note_change()
        for index, each in enumerate(topic.logs):
            if each is not None:
                del self.logs[topic.name, index]
                each.dismiss_watchers()

    def _extend(self, topic: Topic, added: Iterable[int]) -> None:
        logs = self._manager.logs
        before = topic.partitions
        topic.logs += tuple(logs[TopicPartition(topic.name, index)] for index in added)
        self._partition_count += topic.partitions - before
        self._configure(topic, topic.overrides)
        self._list_logs(topic)

    def _list_logs(self, topic: Topic) -> None:
        for index, each in enumerate(topic.logs):
            if each is not None:
                self.logs[topic.name, index] = each
        topic.answers.clear()
        self._note_change()

    def _note_change(self) -> None:
        self.version += 1
        self.listings.clear()
        self._sorted_names = None

    def _configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        topic.overrides = overrides
        topic.config = self._settings.topic_config(overrides)
        for each in topic.logs:
            if each is not None and each.config is not topic.config:
                before = each.config
                each.reconfigure(topic.config)
                self._cleaning.reconfigured(each, before)

    async def _reconfigure(self) -> None:
        """Apply the broker's settings as they are now to every log."""
        share = LoopShare()
        for topic in list(self.topics.values()):
            if self.topics.get(topic.name) is topic:  # otherwise the topic was deleted meanwhile
                self._configure(topic, topic.overrides)
            await share.rest()

    def _check_current(self, topic: Topic) -> None:
        if self.topics.get(topic.name) is not topic:
            raise UnknownTopicOrPartition(f"topic {topic.name} was deleted meanwhile")


def _change(topic: Topic, **fields: Any) -> Callable[[CatalogState], None]:
    """Return a change of a topic's entry in the catalogue."""

    def change(state: CatalogState) -> None:
        state.topics[topic.name] = replace(state.topics[topic.name], **fields)

    return change


def _forget(state: CatalogState, topic_id: UUID) -> None:
    state.deleted -= {topic_id}


# More threads would not be faster: they wait for one disk, and fetches need threads, too.
_WIDTH = 4


async def create_partitions(
    manager: LogManager,
    io: IoThreads,
    partitions: Collection[TopicPartition],
    topic_id: UUID,
    config: TopicConfig,
) -> None:
    """Make the folders of partitions, on io threads, a few at a time.

    If one fails, no more are begun, and existing folders stay.

    Raises:
        KafkaError: The first failure.
    """
    failures: list[KafkaError] = []

    async def create(topic_partition: TopicPartition) -> None:
        if not failures:
            try:
                await io.run(manager.create, topic_partition, topic_id, config)
            except KafkaError as error:
                failures.append(error)
            except Exception as error:
                _logger.exception(
                    "partition is not created, the broker failed partition=%s", topic_partition
                )
                failures.append(
                    KafkaStorageError(
                        f"partition {topic_partition} is not created, the broker failed "
                        f"({type(error).__name__}): see its log"
                    )
                )

    await work_off(partitions, create, _WIDTH)
    if failures:
        raise failures[0]
