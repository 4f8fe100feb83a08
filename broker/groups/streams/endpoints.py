"""The partitions at each endpoint of an application, which its members tell to one another."""

from typing import NamedTuple

from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.member import Member
from siltstone.broker.groups.streams.topology import ConfiguredTopology
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.protocol.coordinator.streams_group_records import Endpoint, TaskSet


class EndpointPartitions(NamedTuple):
    """An endpoint, and the source partitions of its active tasks and of its other tasks."""

    endpoint: Endpoint
    active: list[tuple[str, list[int]]]
    standby: list[tuple[str, list[int]]]


def find_partitions(
    group: StreamsGroup, member: Member, configured: ConfiguredTopology, image: TopicImage
) -> list[EndpointPartitions]:
    """Return the partitions at all endpoints, those of ``member`` last."""
    others = [each for each in group.members.values() if each.id != member.id]
    found = []
    for each in (*others, member):
        endpoint = each.metadata.user_endpoint
        if endpoint is not None:
            held = each.current.assigned
            active = {name: frozenset(epochs) for name, epochs in held.active.items()}
            copies = {
                name: held.standby.get(name, frozenset()) | held.warmup.get(name, frozenset())
                for name in {**held.standby, **held.warmup}
            }
            found.append(
                EndpointPartitions(
                    endpoint,
                    _partitions(active, configured, image),
                    _partitions(copies, configured, image),
                )
            )
    return found


def _partitions(
    tasks: TaskSet, configured: ConfiguredTopology, image: TopicImage
) -> list[tuple[str, list[int]]]:
    found = []
    for name, partitions in tasks.items():
        subtopology = configured.subtopologies.get(name)
        for topic in () if subtopology is None else subtopology.input_topics:
            known = image.find(topic)
            count = 0 if known is None else known.partitions
            if some := sorted(each for each in partitions if each < count):
                found.append((topic, some))
    return found
