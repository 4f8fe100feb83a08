"""Makes the catalogue and the folders agree at a start; logs a line for each difference.

`join` decides what to do, as a pure function: it gets folders by name and id, and returns a plan.
A folder with a topic's id is never deleted, unless the topic's deletion was begun, or it is empty
and neither the catalogue nor Apache Kafka's metadata log has such a partition: a growth that was
refused has left it.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.settings.stored import keep_obeyed
from siltstone.protocol.errors import InvalidTopic, KafkaStorageError
from siltstone.protocol.names import check_topic_name, uuid_text
from siltstone.storage import files
from siltstone.storage.directory.catalog import CatalogState, CatalogTopic
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import UNKNOWN_TOPIC_ID
from siltstone.storage.manager import LogManager
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

_SMALL_FILES: Final = frozenset({files.LEADER_EPOCHS, files.PARTITION_METADATA})


async def recover_topics(
    manager: LogManager,
    catalog: CatalogWriter,
    settings: BrokerSettings,
    io: IoThreads,
    now_ms: int,
) -> dict[str, CatalogTopic]:
    """Make the catalogue and the folders agree; return the topics that result, by name.

    Raises:
        LogDirError: A repair cannot be written.
    """
    ids = manager.folder_ids()
    half_made = await io.run(_find_left_over, ids, catalog.state.topics, manager)
    plan = join(catalog.state, {each: ids[each] for each in ids if each not in half_made})
    plan.unmarked = [each for each in plan.unmarked if each in manager.logs]
    nameless = [each for each in plan.foreign if ids[each] == UNKNOWN_TOPIC_ID]
    half_made |= await io.run(_find_half_made, nameless, manager)
    plan.foreign = [each for each in plan.foreign if each not in half_made]
    plan.doomed += sorted(half_made)
    new = [name for name in plan.adopted if name not in catalog.state.topics]
    lost = len(new)
    if new:
        from siltstone.broker.topics.settings.metadata_log import (  # noqa: PLC0415  # seldom needed
            read_topic_settings,
        )

        directories = [each.path for each in manager.directories]
        known = await io.run(read_topic_settings, directories)
        lost -= _take_settings(plan, new, known, settings)
    _report(plan, manager, lost=0 if catalog.found else lost)

    def change(state: CatalogState) -> None:
        state.topics = plan.topics
        state.deleted = frozenset()
        if plan.adopted and not catalog.found:
            # The highest id given out is unknown, but there was less than one id for each
            # millisecond.
            state.next_producer_id = max(state.next_producer_id, now_ms)

    try:
        for topic_partition in plan.foreign:
            left_alone = manager.logs.pop(topic_partition, None)
            if left_alone is None:
                del manager.set_aside[topic_partition]
            else:
                await io.run(left_alone.abandon, left_alone.path)
        await io.run(manager.delete, *plan.doomed)
        await io.run(manager.futures.remove_deleted, catalog.state.deleted)
        for topic_partition in plan.unmarked:
            topic_id = plan.topics[topic_partition.topic].id
            await io.run(manager.logs[topic_partition].assign_topic_id, topic_id)
        if plan.adopted or catalog.state.deleted:
            await catalog.commit(change)
        for topic_partition in plan.missing:
            entry = plan.topics[topic_partition.topic]
            config = settings.topic_config(entry.overrides)
            await io.run(manager.create, topic_partition, entry.id, config)
    except KafkaStorageError as error:
        raise LogDirError(error.message) from error
    return plan.topics


def _find_left_over(
    ids: Mapping[TopicPartition, UUID], topics: Mapping[str, CatalogTopic], manager: LogManager
) -> set[TopicPartition]:
    """Return the folders that refused growths of topics have left. Blocks.

    Apache Kafka's metadata log tells which partitions were added by Apache Kafka instead.
    """
    above = [
        each
        for each, topic_id in ids.items()
        if (known := topics.get(each.topic))
        and known.id == topic_id
        and known.partitions <= each.partition
    ]
    found = _find_half_made(above, manager)
    if not found:
        return found
    from siltstone.broker.topics.settings.metadata_log import (  # noqa: PLC0415  # seldom needed
        count_partitions,
    )

    counts = count_partitions([each.path for each in manager.directories])
    return {each for each in found if each.partition >= counts.get(ids[each], 0)}


def _find_half_made(
    folders: Collection[TopicPartition], manager: LogManager
) -> set[TopicPartition]:
    """Return those of some folders that failed creations, or growths, have left. Blocks.

    If another of the folders is of the same topic, but has records or other files, both may be
    those of a topic that got no id, as before Apache Kafka 2.8, or that the catalogue has
    forgotten. Then both are left alone.
    """
    found = {each for each in folders if _is_half_made(manager.logs.get(each))}
    others = {each.topic for each in folders if each not in found}
    return {each for each in found if each.topic not in others}


def _is_half_made(log: Log | None) -> bool:
    """Tell whether a folder has no record, and no file but those of a partition."""
    if log is None or log.log_end_offset:
        return False
    try:
        names = files.list_names(log.path)
    except OSError:
        return False
    return all(
        files.parse_name(name) or name.removesuffix(files.TEMPORARY) in _SMALL_FILES
        for name in names
    )


def _take_settings(
    plan: "Plan",
    names: Sequence[str],
    known: Mapping[UUID, Mapping[str, str]],
    settings: BrokerSettings,
) -> int:
    """Give new topics their settings from Apache Kafka's metadata log; return how many it knows.

    A setting that this broker does not obey, or an invalid value, is left out.
    """
    count = 0
    for name in names:
        entry = plan.topics[name]
        found = known.get(entry.id)
        if found is None:
            continue
        count += 1
        overrides = keep_obeyed(found, settings.layers)
        plan.topics[name] = replace(entry, overrides=overrides)
        if found:
            _logger.info(
                "topic has the settings of Apache Kafka's metadata log topic=%s set=%r left_out=%r",
                name,
                " ".join(f"{key}={overrides[key]}" for key in sorted(overrides)),
                " ".join(sorted(found.keys() - overrides.keys())),
            )
    return count


def _report(plan: "Plan", manager: LogManager, *, lost: int) -> None:
    if lost:
        _logger.warning(
            "there is no catalogue: topics are made from their folders, settings of their own are "
            "lost topics=%d; set them again",
            lost,
        )
    for name in plan.adopted:
        entry = plan.topics[name]
        _logger.warning(
            "topic adopted from its folders topic=%s id=%s partitions=%d",
            name,
            uuid_text(entry.id),
            entry.partitions,
        )
    for topic_partition in plan.unmarked:
        _logger.warning(
            "folder had no valid partition.metadata and gets its topic's id folder=%s",
            manager.logs[topic_partition].path,
        )
    for topic_partition in plan.foreign:
        odd = manager.logs.get(topic_partition) or manager.set_aside[topic_partition]
        expected = plan.topics.get(topic_partition.topic)
        _logger.error(
            "folder is left alone and not served: move it away, or move it back to where it came "
            "from folder=%s id=%s expected=%s",
            odd.path,
            uuid_text(odd.topic_id),
            "none" if expected is None else uuid_text(expected.id),
        )
    for topic_partition in plan.missing:
        _logger.error(
            "partition has no folder and is made again, EMPTY; stop and put the folder back if it "
            "was moved partition=%s",
            topic_partition,
        )
    for topic_partition in plan.doomed:
        _logger.info("folder is removed, no topic has the partition partition=%s", topic_partition)


MAX_PARTITIONS = 10_000
"""A folder with a higher number is not adopted: the partitions below it would all be made."""


@dataclass(slots=True)
class Plan:
    """The plan for each folder, and the topics that result.

    ``adopted`` are names that the catalogue lacked or knew with fewer partitions; ``unmarked``
    folders get the id of their topic; ``foreign`` folders have another topic's id, or no id that
    can be right, and are left alone; ``missing`` partitions get an empty folder; ``doomed`` folders
    are deleted: those of deleted topics, and those that a creation or a growth left half-made.
    """

    topics: dict[str, CatalogTopic] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)
    unmarked: list[TopicPartition] = field(default_factory=list)
    foreign: list[TopicPartition] = field(default_factory=list)
    missing: list[TopicPartition] = field(default_factory=list)
    doomed: list[TopicPartition] = field(default_factory=list)


def join(state: CatalogState, folders: Mapping[TopicPartition, UUID]) -> Plan:
    """Return a plan: the topics of the catalogue and of the folders, and what to do for them."""
    plan = Plan()
    found: dict[str, dict[int, UUID]] = {name: {} for name in state.topics}
    for topic_partition, topic_id in folders.items():
        if topic_id in state.deleted:
            plan.doomed.append(topic_partition)
        else:
            found.setdefault(topic_partition.topic, {})[topic_partition.partition] = topic_id
    for name, ids in found.items():
        entry = _entry(name, state.topics.get(name), ids)
        if entry is None:
            plan.foreign += (TopicPartition(name, index) for index in ids)
        else:
            if entry != state.topics.get(name):
                plan.adopted.append(name)
            plan.topics[name] = entry
            _place(plan, name, entry, ids)
    return plan


def _entry(name: str, known: CatalogTopic | None, ids: Mapping[int, UUID]) -> CatalogTopic | None:
    """Return the topic according to the folders and the catalogue; None if no id can be right.

    If the catalogue does not have the topic and the folders have different ids, the id of most
    folders wins; after a tie, the id of the lowest partition.
    """
    if known is None:
        candidates = Counter(ids[index] for index in sorted(ids) if ids[index] != UNKNOWN_TOPIC_ID)
        if not candidates or not _is_legal(name):
            return None
        topic_id = candidates.most_common(1)[0][0]
    else:
        topic_id = known.id
    ours = [index for index, each in ids.items() if each == topic_id and index < MAX_PARTITIONS]
    partitions = max(ours, default=-1) + 1
    if known is not None:
        if partitions <= known.partitions:
            return known
        return CatalogTopic(id=topic_id, partitions=partitions, overrides=known.overrides)
    return CatalogTopic(id=topic_id, partitions=partitions) if ours else None


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


def _place(plan: Plan, name: str, entry: CatalogTopic, ids: Mapping[int, UUID]) -> None:
    for index in range(entry.partitions):
        if index not in ids:
            plan.missing.append(TopicPartition(name, index))
    for index, topic_id in ids.items():
        if topic_id == UNKNOWN_TOPIC_ID and index < entry.partitions:
            plan.unmarked.append(TopicPartition(name, index))
        elif topic_id != entry.id or index >= entry.partitions:
            plan.foreign.append(TopicPartition(name, index))
