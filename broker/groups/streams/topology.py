"""The topology of a streams group, and the topics that the broker makes for it.

A subtopology reads source topics, and it has as many tasks as the largest of these has partitions.
Repartition topics pass records from one subtopology to another, changelog topics keep the state of
stores. The broker computes how many partitions these internal topics need (Kafka:
InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Final, NamedTuple

from siltstone.broker.groups.topic_image import TopicImage
from siltstone.protocol.coordinator.group_errors import StreamsInvalidTopology
from siltstone.protocol.coordinator.streams_group_records import Subtopology, TopicInfo, Topology
from siltstone.protocol.errors import UnknownServerError

_NAMED: Final = 3
"""How many topics a status names."""


class StatusCode(IntEnum):
    """The states of a group that members learn, beside their tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    """A code, and words for the application's log."""

    code: StatusCode
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the numbers of partitions that its topics need."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, TopicInfo]
    state_changelog_topics: Mapping[str, TopicInfo]

    @property
    def is_stateful(self) -> bool:
        """Whether a task has a store that a changelog keeps."""
        return bool(self.state_changelog_topics)

    @property
    def input_topics(self) -> list[str]:
        """The topics whose partitions its tasks read, by name."""
        return sorted({*self.source_topics, *self.repartition_source_topics})


class ConfiguredTopology(NamedTuple):
    """A topology beside the topics as they are; ``fault`` is why it has no tasks yet."""

    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: Mapping[str, TopicInfo]
    """The internal topics that have to be created."""
    fault: Status | None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist with the right numbers of partitions."""
        return self.fault is None


class _BadTopicsError(Exception):
    """The topics do not fit the topology; it has the status that members get."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def same_topology(one: Topology, other: Topology) -> bool:
    """Tell whether two topologies are equal; the order of their subtopologies does not matter."""
    return one.epoch == other.epoch and _by_id(one) == _by_id(other)


def required_topics(topology: Topology) -> set[str]:
    """Return the names of all topics that a topology reads, or keeps its stores in."""
    return {
        name
        for each in topology.subtopologies
        for name in (*input_topics(each), *(topic.name for topic in each.state_changelog_topics))
    }


def input_topics(subtopology: Subtopology) -> list[str]:
    """Return the topics whose partitions the tasks of a subtopology read."""
    repartitioned = (topic.name for topic in subtopology.repartition_source_topics)
    return [*subtopology.source_topics, *repartitioned]


def find_reader(topology: Topology, topic: str) -> Subtopology | None:
    """Return the subtopology that reads a topic."""
    found = (each for each in topology.subtopologies if topic in input_topics(each))
    return next(found, None)


def configure(topology: Topology, image: TopicImage) -> ConfiguredTopology:
    """Compare a topology with the topics as they are.

    Raises:
        StreamsInvalidTopology: No numbers of partitions can be right for it.
        UnknownServerError: It contradicts itself.
    """
    try:
        return _configure(topology, image)
    except _BadTopicsError as error:
        return ConfiguredTopology({}, {}, error.status)


def _configure(topology: Topology, image: TopicImage) -> ConfiguredTopology:
    sources = {name for each in topology.subtopologies for name in each.source_topics}
    absent = sorted(name for name in sources if image.find(name) is None)
    if absent:
        detail = f"Source topics {_summarize(absent)} are missing."
        raise _BadTopicsError(StatusCode.MISSING_SOURCE_TOPICS, detail)
    counts = _Counts(topology, image)
    counts.decide()
    made = {name: counts.configured(each) for name, each in sorted(_by_id(topology).items())}
    wanted = {
        name: info
        for each in made.values()
        for name, info in (
            *each.repartition_source_topics.items(), *each.state_changelog_topics.items(),
        )
    }  # fmt: skip
    missing = {}
    for name, info in wanted.items():
        topic = image.find(name)
        if topic is None:
            missing[name] = info
        elif topic.partitions != info.partitions:
            detail = (
                f"Existing topic {name} has different number of partitions: expected "
                f"{info.partitions}, found {topic.partitions}"
            )
            raise _BadTopicsError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    fault = None
    if missing:
        detail = f"Internal topics are missing: {_summarize(missing)}"
        fault = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(made, missing, fault)


class _Counts:
    """The numbers of partitions of all topics of a topology."""

    def __init__(self, topology: Topology, image: TopicImage) -> None:
        self._subtopologies = topology.subtopologies
        self._image = image
        self._decided: dict[str, int] = {}

    def find(self, name: str) -> int | None:
        """Return how many partitions a topic has; if it does not exist, how many it will have."""
        topic = self._image.find(name)
        return self._decided.get(name) if topic is None else topic.partitions

    def get(self, name: str, fault: type[StreamsInvalidTopology | UnknownServerError]) -> int:
        """Return the same, where it has to be known."""
        count = self.find(name)
        if count is None:
            raise (
                fault(f"Number of partitions is not set for topic: {name}")
                if fault is StreamsInvalidTopology
                else fault
            )
        return count

    def decide(self) -> None:
        """Find the numbers for all internal topics."""
        self._decided = self._of_repartition_topics()
        fixed = {
            info.name
            for each in self._subtopologies
            for info in each.repartition_source_topics
            if info.partitions
        }
        flexible = {
            info.name for each in self._subtopologies for info in each.repartition_source_topics
        } - fixed
        for each in self._subtopologies:
            repartitioned = [info.name for info in each.repartition_source_topics]
            for group in each.copartition_groups:
                named = _pick(each.source_topics, group.source_topics)
                named |= _pick(repartitioned, group.repartition_source_topics)
                if named:
                    self._enforce(named, fixed, flexible)
        changelogs: dict[str, int] = {}
        for each in self._subtopologies:
            known = [self.get(name, UnknownServerError) for name in input_topics(each)]
            if not known:
                raise StreamsInvalidTopology(
                    f"No source topics found for subtopology {each.subtopology_id}"
                )
            changelogs |= dict.fromkeys(
                (info.name for info in each.state_changelog_topics), max(known)
            )
        self._decided |= changelogs

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Return a subtopology with its numbers."""
        return ConfiguredSubtopology(
            max(self.get(name, UnknownServerError) for name in input_topics(subtopology)),
            tuple(subtopology.source_topics),
            tuple(subtopology.repartition_sink_topics),
            self._with_counts(subtopology.repartition_source_topics),
            self._with_counts(subtopology.state_changelog_topics),
        )

    def _with_counts(self, topics: Iterable[TopicInfo]) -> dict[str, TopicInfo]:
        return {
            info.name: info._replace(partitions=info.partitions or self._decided[info.name])
            for info in topics
        }

    def _of_repartition_topics(self) -> dict[str, int]:
        """Give a repartition topic the number that is set for it, or that of its inputs."""
        found = {
            info.name: info.partitions
            for each in self._subtopologies
            for info in each.repartition_source_topics
            if info.partitions
        }
        open_ones = True
        while open_ones:
            before, open_ones = len(found), False
            for each in self._subtopologies:
                for sink in each.repartition_sink_topics:
                    if sink in found:
                        continue
                    count = self._largest_input(each, found)
                    if count is None:
                        open_ones = True
                    else:
                        found[sink] = count
            if open_ones and len(found) == before:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. There may "
                    "be loops in the topology that cannot be resolved."
                )
        if any(
            info.name not in found
            for each in self._subtopologies
            for info in each.repartition_source_topics
        ):
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
        return found

    def _largest_input(self, subtopology: Subtopology, found: Mapping[str, int]) -> int | None:
        counts = [found.get(info.name) for info in subtopology.repartition_source_topics]
        counts += map(self.find, subtopology.source_topics)
        return max((count for count in counts if count is not None), default=None)

    def _enforce(
        self, group: AbstractSet[str], fixed: AbstractSet[str], flexible: AbstractSet[str]
    ) -> None:
        """Give the repartition topics of a group of topics that are joined the same number."""
        internal = sorted(group & (fixed | flexible))
        known = {name: self.get(name, StreamsInvalidTopology) for name in internal}
        others = {name: self.get(name, StreamsInvalidTopology) for name in group - known.keys()}
        if others:
            count = self._same(others, others)
        elif fixed:
            count = self._same(
                {name: self.get(name, StreamsInvalidTopology) for name in fixed}, known
            )
        else:
            count = max(known.values(), default=0)
        for name in internal:
            if name in fixed and known[name] != count:
                raise _BadTopicsError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{known[name]}] of repartition topic [{name}] doesn't "
                    f"match number of partitions [{count}] of the source topic.",
                )
            self._decided[name] = count

    @staticmethod
    def _same(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name}={count}" for name, count in sorted(named.items()))
            raise _BadTopicsError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Following topics do not have the same number of partitions: [{{{said}}}]",
            )
        return next(iter(counts.values()))


def _pick(names: Sequence[str], indexes: Iterable[int]) -> set[str]:
    """Return the names that a group of topics points to."""
    try:
        return {names[index] if index >= 0 else names[len(names)] for index in indexes}
    except IndexError:
        raise UnknownServerError from None


def _by_id(topology: Topology) -> dict[str, Subtopology]:
    return {each.subtopology_id: each for each in topology.subtopologies}


def _summarize(names: Collection[str]) -> str:
    named = sorted(names)
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more} additional topics" if more > 0 else "")
