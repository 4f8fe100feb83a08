"""Names of partition folders."""

from uuid import UUID

import pytest

from siltstone.storage.topic_partition import (
    FolderState,
    TopicPartition,
    folder_name,
    most_partitions,
    parse_folder,
)

ID = UUID("0123456789abcdef0123456789abcdef")


def test_prints_as_its_folder() -> None:
    """A partition prints as Kafka names its folder."""
    assert str(TopicPartition("orders", 3)) == "orders-3"


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [("orders-3", "orders", 3), ("a-b.c-0", "a-b.c", 0), ("-1-2", "-1", 2), ("x--7", "x-", 7)],
)
def test_topic_ends_at_the_last_dash(name: str, topic: str, partition: int) -> None:
    """Topic names may hold dashes and dots (KAFKA-5232)."""
    assert parse_folder(name).topic_partition == TopicPartition(topic, partition)


@pytest.mark.parametrize("state", [FolderState.DELETE, FolderState.STRAY, FolderState.FUTURE])
def test_marked_folder_round_trip(state: FolderState) -> None:
    """The name of a marked folder tells partition and state again."""
    partition = TopicPartition("a.b-c", 12)

    name = folder_name(partition, state, ID)

    assert name == f"a.b-c-12.{ID.hex}{state}"
    assert parse_folder(name) == (partition, state)


def test_marked_name_is_cut_to_255() -> None:
    """A long topic is cut so that the marked name is still a legal file name."""
    name = folder_name(TopicPartition("t" * 249, 100), FolderState.DELETE, ID)

    assert len(name) == 255
    assert parse_folder(name).topic_partition.partition == 100


@pytest.mark.parametrize(
    "name", ["", "orders", "orders-", "-", "orders-x", "a/b-0", "lost+found", "orders-3 ", "ä-1"]
)
def test_other_names_are_refused(name: str) -> None:
    """A folder that is not `<topic>-<number>` is not a partition."""
    with pytest.raises(ValueError, match="not the name of a partition folder"):
        parse_folder(name)


def test_topic_that_only_ends_like_a_mark() -> None:
    """`x-delete` names no partition; `x-delete-0` is partition 0 of the topic `x-delete`."""
    assert parse_folder("x-delete-0").topic_partition == TopicPartition("x-delete", 0)
    with pytest.raises(ValueError, match="x-delete"):
        parse_folder("x-delete")


def test_mark_needs_an_id() -> None:
    """A topic may be deleted twice within the delay, so a marked name needs an id."""
    with pytest.raises(ValueError, match="unique id"):
        folder_name(TopicPartition("orders", 3), FolderState.DELETE)


@pytest.mark.parametrize("topic", ["a", "a" * 248, "a" * 249])
def test_the_last_of_the_most_partitions_has_a_folder(topic: str) -> None:
    """With a name of 255 characters at most; one more has none, or there are a million."""
    most = most_partitions(topic)

    assert len(folder_name(TopicPartition(topic, most - 1))) <= 255
    assert most == 1_000_000 or len(folder_name(TopicPartition(topic, most))) > 255
