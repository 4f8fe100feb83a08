"""DescribeTopicPartitions: pages of topics in the order of their names."""

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.handlers.topic_partitions import describe
from siltstone.protocol.messages.describe_topic_partitions import RESPONSE
from siltstone.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest as DescribeRequest,
)
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 75


@pytest.fixture
async def topics(home: ServicesOnDisk) -> ServicesOnDisk:
    """Topics c, a and b with 2, 3 and 1 partitions."""
    for name, partitions in (("c", 2), ("a", 3), ("b", 1)):
        await home.services.topics.create(name, partitions, {})
    return home


def _request(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    place = cursor and dict(zip(("topic_name", "partition_index"), cursor, strict=True))
    topics = [{"name": name} for name in names]
    return request(75, 0, topics=topics, response_partition_limit=limit, cursor=place)


async def test_no_name_means_all_sorted(topics: ServicesOnDisk) -> None:
    """With ids and authorized operations."""
    answer = await ask(topics, KEY, _request())

    assert [(each.name, len(each.partitions)) for each in answer.topics] == [
        ("a", 3),
        ("b", 1),
        ("c", 2),
    ]
    assert answer.next_cursor is None
    assert {each.topic_authorized_operations for each in answer.topics} == {3576}
    assert answer.topics[0].topic_id == topics.services.topics.topics["a"].id


async def test_every_page_begins_where_the_last_one_ended(topics: ServicesOnDisk) -> None:
    """Following the cursor shows each partition once, whatever the limit is."""
    for limit in range(1, 8):
        seen: list[tuple[str, int]] = []
        cursor = None
        while True:
            answer = await ask(topics, KEY, _request(limit=limit, cursor=cursor))
            page = [
                (each.name, part.partition_index)
                for each in answer.topics
                for part in each.partitions
            ]
            assert len(page) <= limit
            seen += page
            if answer.next_cursor is None:
                break
            cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)

        assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


async def test_what_is_kept_of_an_answer_follows_the_topic(topics: ServicesOnDisk) -> None:
    """Partitions that are added, and names that come and go, are in the next answer."""
    registry = topics.services.topics
    await ask(topics, KEY, _request())
    await registry.add_partitions(registry.topics["b"], 2)
    await registry.delete(registry.topics["c"])
    await registry.create("aa", 1, {})
    answer = await ask(topics, KEY, _request())

    assert [(each.name, len(each.partitions)) for each in answer.topics] == [
        ("a", 3),
        ("aa", 1),
        ("b", 2),
    ]


async def test_errors_of_partitions_are_counted_each_time(topics: ServicesOnDisk) -> None:
    """An answer with an error is written again, since kept bytes have no error."""
    topics.services.topics.topics["b"].logs = (None,)
    for _ in range(2):
        errors: list[int] = []
        answer = await describe(topics.context(KEY), DescribeRequest())
        RESPONSE.respond(0, 1, answer, errors)
        assert errors == [ErrorCode.leader_not_available]


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_has_at_least_one_partition(topics: ServicesOnDisk, limit: int) -> None:
    """A limit below 1 is 1."""
    answer = await ask(topics, KEY, _request("a", limit=limit))

    assert len(answer.topics[0].partitions) == 1
    assert answer.next_cursor.partition_index == 1


async def test_a_full_page_ends_before_a_topic_that_is_not_there(topics: ServicesOnDisk) -> None:
    """The next page begins with it, and says so."""
    answer = await ask(topics, KEY, _request("a", "zz", limit=3))
    page = await ask(topics, KEY, _request("a", "zz", limit=3, cursor=("zz", 0)))

    assert [each.name for each in answer.topics] == ["a"]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("zz", 0)
    assert [(each.name, each.error_code) for each in page.topics] == [
        ("zz", ErrorCode.unknown_topic_or_partition)
    ]


async def test_the_broker_limits_pages_too(tmp_path: Path) -> None:
    """max.request.partition.size.limit."""
    home = await ServicesOnDisk(tmp_path, max_request_partition_size_limit="2").open()
    await home.services.topics.create("a", 3, {})
    answer = await ask(home, KEY, _request())

    assert len(answer.topics[0].partitions) == 2
    await home.close()


async def test_topics_that_are_not_there(topics: ServicesOnDisk) -> None:
    """Each with its own reason; none is made."""
    answer = await ask(topics, KEY, _request("missing", "b", "a/b", "b", ""))

    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("", ErrorCode.invalid_topic_exception),
        ("a/b", ErrorCode.invalid_topic_exception),
        ("b", ErrorCode.none),
        ("missing", ErrorCode.unknown_topic_or_partition),
    ]
    assert "missing" not in topics.services.topics.topics


async def test_a_cursor_may_name_a_topic_that_is_not_there(topics: ServicesOnDisk) -> None:
    """A full page ends before the next name, whatever is behind it; the next page says that."""
    first = await ask(topics, KEY, _request("b", "ba", "c", limit=1))
    second = await ask(topics, KEY, _request("b", "ba", "c", limit=1, cursor=("ba", 0)))

    assert [each.name for each in first.topics] == ["b"]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("ba", 0)
    assert [each.name for each in second.topics] == ["ba", "c"]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_a_cursor_to_nowhere_refuses_every_topic(
    topics: ServicesOnDisk, cursor: tuple[str, int]
) -> None:
    """Only topics have room for the error."""
    answer = await ask(topics, KEY, _request("a", "c", cursor=cursor))

    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a", ErrorCode.invalid_request),
        ("c", ErrorCode.invalid_request),
    ]


async def test_a_cursor_of_a_topic_that_is_gone_goes_on_behind_it(topics: ServicesOnDisk) -> None:
    """Pages of all topics survive a deletion in between."""
    answer = await ask(topics, KEY, _request(cursor=("aa", 1)))

    assert [each.name for each in answer.topics] == ["b", "c"]
