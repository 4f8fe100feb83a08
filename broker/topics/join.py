"""Which topics there are when the broker starts: the catalogue joined with the folders found.

Pure: folders by name and id come in, a plan comes out. No folder with a topic's id in it is ever
given up, except those of a topic whose deletion was begun.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone.protocol.errors import InvalidTopic
from siltstone.protocol.names import check_topic_name
from siltstone.storage.directory.catalog import CatalogTopic
from siltstone.storage.log.recovery import UNKNOWN_TOPIC_ID
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from siltstone.storage.directory.catalog import CatalogState

MAX_PARTITIONS = 10_000
"""A folder with a higher number is not adopted: the partitions below it would all be made."""


@dataclass(slots=True)
class Plan:
    """What to do with each folder, and the topics that result.

    ``adopted`` are names that the catalogue lacked or knew with fewer partitions; ``unmarked``
    folders get the id of their topic; ``foreign`` ones have another topic's id, or none that can be
    right, and are left alone; ``missing`` ones are made empty; ``doomed`` ones are deleted.
    """

    topics: dict[str, CatalogTopic] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)
    unmarked: list[TopicPartition] = field(default_factory=list)
    foreign: list[TopicPartition] = field(default_factory=list)
    missing: list[TopicPartition] = field(default_factory=list)
    doomed: list[TopicPartition] = field(default_factory=list)


def join(state: CatalogState, folders: Mapping[TopicPartition, UUID]) -> Plan:
    """Return the topics of the catalogue and of the folders, and what is to be done for them."""
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
    """Return the topic that the folders and the catalogue mean, None if no id can be right.

    Where the catalogue says nothing, and folders differ, most of them decide, then the lowest.
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
