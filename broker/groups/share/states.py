"""Which partitions of a share group have a delivery state (record type 15), as it changes.

A partition that a member subscribes to is first noted as initializing, then its state is made, then
it is noted as initialized; only then can it be assigned. Before the states of a topic are deleted,
the topic is noted as deleting, so that a deletion that was cut short is done again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from siltstone.broker.groups.share.changes import Changes
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.broker.groups.share.policy import World
from siltstone.broker.groups.topic_image import ImageTopic, TopicImage
from siltstone.protocol.coordinator.share_group_records import (
    Partitions,
    RecordType,
    StatePartitions,
    StateTopic,
)

UNKNOWN_START: Final = -1
"""The start of a queue that begins where share.auto.offset.reset says."""


def find_new(group: ShareGroup, topics: Iterable[ImageTopic], world: World) -> Partitions:
    """Return the partitions of topics whose states have to be made, and are not being made."""
    states, retry_ms = group.states, world.policy.initialize_retry_ms
    found = {}
    for topic in topics:
        known = set(_of(states.initialized, topic.id))
        making = states.initializing.get(topic.id)
        if making is not None and world.now_ms - making.since_ms < retry_ms:
            known |= making.partitions
        if len(known) < topic.partitions:
            found[topic.id] = frozenset(range(topic.partitions)) - known
    return found


def start_of_new(group: ShareGroup, topic_id: UUID) -> int:
    """Return where queues of a topic begin: new partitions of a known topic begin at their start.

    A record that is produced before the members know of the partition is delivered, too.
    """
    states = group.states
    return 0 if topic_id in states.initialized or topic_id in states.initializing else UNKNOWN_START


def begin(changes: Changes, partitions: Partitions, world: World) -> None:
    """Note that the states of partitions are being made."""
    states = changes.group.states
    initializing = dict(states.initializing)
    for topic_id, indexes in partitions.items():
        more = indexes | _of(initializing, topic_id)
        initializing[topic_id] = StateTopic(_name(world.image, topic_id), more, world.now_ms)
    deleting = {each: name for each, name in states.deleting.items() if each not in initializing}
    _put(changes, world.image, states._replace(initializing=initializing, deleting=deleting))


def complete(changes: Changes, partitions: Partitions, world: World) -> None:
    """Note that the states of partitions have been made."""
    states = changes.group.states
    initialized = dict(states.initialized)
    for topic_id, indexes in partitions.items():
        more = indexes | _of(initialized, topic_id)
        initialized[topic_id] = StateTopic(_name(world.image, topic_id), more)
    left = _without(states.initializing, partitions)
    _put(changes, world.image, states._replace(initializing=left, initialized=initialized))


def give_up(changes: Changes, partitions: Partitions, world: World) -> None:
    """Note that the states of partitions could not be made; the next heartbeat tries again."""
    states = changes.group.states
    if states.initializing:
        left = _without(states.initializing, partitions)
        _put(changes, world.image, states._replace(initializing=left))


def begin_delete(
    changes: Changes, topic_ids: Collection[UUID], world: World
) -> Mapping[UUID, frozenset[int]]:
    """Note that the states of topics are being deleted, and return their partitions.

    A topic whose deletion was cut short before has all of its partitions deleted.
    """
    states = changes.group.states
    found: dict[UUID, frozenset[int]] = {}
    for topic_id in topic_ids:
        found[topic_id] = _of(states.initialized, topic_id)
        topic = world.image.find_id(topic_id)
        if topic_id in states.deleting and topic is not None:
            found[topic_id] |= frozenset(range(topic.partitions))
    initialized = {each: topic for each, topic in states.initialized.items() if each not in found}
    deleting = dict(states.deleting) | {each: _name(world.image, each) for each in found}
    _put(changes, world.image, states._replace(initialized=initialized, deleting=deleting))
    return found


def begin_delete_all(changes: Changes, world: World) -> Mapping[UUID, frozenset[int]]:
    """Note that all states of the group are being deleted, and return their partitions."""
    states = changes.group.states
    found: dict[UUID, frozenset[int]] = {
        topic_id: _of(states.initialized, topic_id) | _of(states.initializing, topic_id)
        for topic_id in {**states.initialized, **states.initializing}
    }
    for topic_id in states.deleting:
        topic = world.image.find_id(topic_id)
        if topic is not None:
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(range(topic.partitions))
    known = {**states.initialized, **states.initializing}
    names = {each: known[each].name if each in known else states.deleting[each] for each in found}
    changes.put_group(RecordType.STATE_PARTITIONS, StatePartitions({}, {}, names))
    return found


def end_delete(changes: Changes, topic_ids: Collection[UUID], world: World) -> None:
    """Note that the states of topics have been deleted."""
    states = changes.group.states
    deleting = {each: name for each, name in states.deleting.items() if each not in topic_ids}
    _put(changes, world.image, states._replace(deleting=deleting))


def forget(changes: Changes, topic_id: UUID) -> None:
    """Drop a topic that was deleted; the share coordinator has forgotten its states."""
    states = changes.group.states
    left = _keep(states, lambda each: each != topic_id)
    if left != states:
        changes.put_group(RecordType.STATE_PARTITIONS, left)


def _put(changes: Changes, image: TopicImage, states: StatePartitions) -> None:
    """Put the record, without topics that were deleted while the broker did not look."""
    known = _keep(states, lambda each: image.find_id(each) is not None)
    changes.put_group(RecordType.STATE_PARTITIONS, known)


def _keep(states: StatePartitions, test: Callable[[UUID], bool]) -> StatePartitions:
    """Return the states of the topics that pass a test."""
    initializing, initialized, deleting = states
    return StatePartitions(
        {each: topic for each, topic in initializing.items() if test(each)},
        {each: topic for each, topic in initialized.items() if test(each)},
        {each: name for each, name in deleting.items() if test(each)},
    )


def _without(topics: Mapping[UUID, StateTopic], partitions: Partitions) -> dict[UUID, StateTopic]:
    left = {}
    for topic_id, topic in topics.items():
        indexes = topic.partitions - partitions.get(topic_id, frozenset())
        if indexes:
            left[topic_id] = topic._replace(partitions=indexes)
    return left


def _of(topics: Mapping[UUID, StateTopic], topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _name(image: TopicImage, topic_id: UUID) -> str:
    topic = image.find_id(topic_id)
    return "<UNKNOWN>" if topic is None else topic.name
