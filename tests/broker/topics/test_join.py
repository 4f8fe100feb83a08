"""Catalogue and folders: whose word counts, and that no folder of records is given up."""

from uuid import UUID

from siltstone.broker.topics.start import MAX_PARTITIONS, Plan, join
from siltstone.storage.directory.catalog import CatalogState, CatalogTopic
from siltstone.storage.log.recovery import UNKNOWN_TOPIC_ID
from siltstone.storage.topic_partition import TopicPartition

A, B = UUID(int=10), UUID(int=11)


def _folders(**ids: UUID) -> dict[TopicPartition, UUID]:
    """Return folders named ``topic_partition``."""
    folders = {}
    for name, topic_id in ids.items():
        topic, _, index = name.rpartition("_")
        folders[TopicPartition(topic, int(index))] = topic_id
    return folders


def _known(partitions: int, deleted: frozenset[UUID] = frozenset()) -> CatalogState:
    topic = CatalogTopic(id=A, partitions=partitions, overrides={"retention.ms": "5"})
    return CatalogState(topics={"t": topic}, deleted=deleted)


def test_agreement_needs_nothing() -> None:
    """A catalogue and its folders come to just these topics."""
    plan = join(_known(2), _folders(t_0=A, t_1=A))

    assert plan == Plan(topics=_known(2).topics)


def test_a_folder_nobody_knows_is_adopted() -> None:
    """Its id and the highest partition tell what the topic was; gaps are made."""
    plan = join(CatalogState(), _folders(t_0=A, t_2=A))

    assert plan.topics == {"t": CatalogTopic(id=A, partitions=3)}
    assert plan.adopted == ["t"]
    assert plan.missing == [TopicPartition("t", 1)]


def test_more_partitions_than_known_are_adopted() -> None:
    """A topic keeps its settings when folders show that it had grown."""
    plan = join(_known(1), _folders(t_0=A, t_1=A))

    assert plan.topics["t"] == CatalogTopic(id=A, partitions=2, overrides={"retention.ms": "5"})
    assert plan.adopted == ["t"]


def test_missing_folders_are_made() -> None:
    """The topic stays whole."""
    assert join(_known(3), _folders(t_1=A)).missing == [
        TopicPartition("t", 0),
        TopicPartition("t", 2),
    ]


def test_another_topics_folder_is_left_alone() -> None:
    """It is neither served nor replaced by an empty one."""
    plan = join(_known(2), _folders(t_0=A, t_1=B))

    assert plan.foreign == [TopicPartition("t", 1)]
    assert plan.topics["t"].partitions == 2
    assert not plan.missing


def test_most_folders_decide_which_id_is_adopted() -> None:
    """One stray folder does not take a topic over."""
    plan = join(CatalogState(), _folders(t_0=B, t_1=A, t_2=A))

    assert plan.topics["t"].id == A
    assert plan.foreign == [TopicPartition("t", 0)]


def test_a_folder_without_an_id_gets_that_of_its_topic() -> None:
    """As Kafka does for folders from before topic ids."""
    plan = join(_known(1), _folders(t_0=UNKNOWN_TOPIC_ID))

    assert plan.unmarked == [TopicPartition("t", 0)]
    assert not plan.foreign


def test_a_folder_without_an_id_alone_is_no_topic() -> None:
    """Only a valid partition.metadata makes one."""
    plan = join(CatalogState(), _folders(t_0=UNKNOWN_TOPIC_ID))

    assert not plan.topics
    assert plan.foreign == [TopicPartition("t", 0)]


def test_the_folders_of_a_deleted_topic_go() -> None:
    """A deletion that a crash interrupted is ended, also beside a new topic of that name."""
    plan = join(_known(1, frozenset({B})), _folders(t_0=A, t_1=B))

    assert plan.doomed == [TopicPartition("t", 1)]
    assert plan.topics["t"].partitions == 1


def test_a_huge_partition_number_makes_no_topic() -> None:
    """One folder with a typing error in its name must not create a billion others."""
    plan = join(CatalogState(), {TopicPartition("t", MAX_PARTITIONS): A})

    assert not plan.topics
    assert plan.foreign == [TopicPartition("t", MAX_PARTITIONS)]


def test_an_illegal_name_makes_no_topic() -> None:
    """A folder `..-0` cannot be a topic that a client may ask for."""
    assert not join(CatalogState(), {TopicPartition("..", 0): A}).topics
