"""CreatePartitions: more, never fewer; every topic of the request is answered."""

from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 37


def _more(name: str, count: int, assign: list[tuple[int, ...]] | None = None) -> dict[str, Any]:
    rows = None if assign is None else [{"broker_ids": each} for each in assign]
    return {"name": name, "count": count, "assignments": rows}


async def _extend(
    home: ServicesOnDisk, *topics: Mapping[str, Any], validate_only: bool = False, version: int = 3
) -> list[Any]:
    wanted = request(KEY, 3, topics=topics, validate_only=validate_only)
    return list((await ask(home, KEY, wanted, version)).results)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added(home: ServicesOnDisk, version: int) -> None:
    """With and without an assignment; the unknown topic beside them is refused."""
    for name in ("a", "b"):
        await home.services.topics.create(name, 1, {})
    results = await _extend(
        home, _more("a", 3), _more("b", 2, [(1,)]), _more("missing", 2), version=version
    )

    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
        ("missing", ErrorCode.unknown_topic_or_partition),
    ]
    assert [topic.partitions for topic in home.services.topics.topics.values()] == [3, 2]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (_more("a", 2), ErrorCode.invalid_partitions),
        (_more("a", 1), ErrorCode.invalid_partitions),
        (_more("a", 0), ErrorCode.invalid_partitions),
        (_more("a", -1), ErrorCode.invalid_partitions),
        (_more("a", 4, [(1,)]), ErrorCode.invalid_replica_assignment),
        (_more("a", 3, []), ErrorCode.invalid_replica_assignment),
        (_more("a", 3, [(7,)]), ErrorCode.invalid_replica_assignment),
        (_more("a", 3, [(1, 1)]), ErrorCode.invalid_replica_assignment),
        (_more("a", 3, [()]), ErrorCode.invalid_replica_assignment),
        (_more("a", 20_000), ErrorCode.policy_violation),
    ],
)
async def test_refusals(home: ServicesOnDisk, wanted: dict[str, Any], code: ErrorCode) -> None:
    """The topic stays as it was."""
    await home.services.topics.create("a", 2, {})
    [result] = await _extend(home, wanted)

    assert result.error_code is code
    assert result.error_message
    assert home.services.topics.topics["a"].partitions == 2


async def test_a_name_twice_is_refused_once(home: ServicesOnDisk) -> None:
    """Neither of the two numbers counts."""
    await home.services.topics.create("a", 1, {})
    results = await _extend(home, _more("a", 2), _more("a", 3))

    assert [each.error_code for each in results] == [ErrorCode.invalid_request]
    assert home.services.topics.topics["a"].partitions == 1


async def test_validating_adds_nothing(home: ServicesOnDisk) -> None:
    """It only tells what would come of it."""
    await home.services.topics.create("a", 1, {})
    [result] = await _extend(home, _more("a", 2), validate_only=True)

    assert result.error_code is ErrorCode.none
    assert home.services.topics.topics["a"].partitions == 1


async def test_all_topics_of_a_request_count_together(home: ServicesOnDisk) -> None:
    """More than 10,000 partitions are refused as a whole, as in Kafka."""
    for name in ("a", "b"):
        await home.services.topics.create(name, 1, {})
    results = await _extend(home, _more("a", 6001), _more("b", 6001))

    assert [each.error_code for each in results] == [ErrorCode.policy_violation] * 2
    assert [each.partitions for each in home.services.topics.topics.values()] == [1, 1]


@pytest.mark.parametrize("validate_only", [True, False])
async def test_a_name_too_long_for_as_many(home: ServicesOnDisk, validate_only: bool) -> None:
    """The name of the last folder would have 256 characters: nothing is made of any."""
    name = "a" * 249
    topic = await home.services.topics.create(name, 1, {})
    topic.logs += (None,) * 99_999  # so many exist already
    [result] = await _extend(home, _more(name, 100_001), validate_only=validate_only)

    assert result.error_code is ErrorCode.invalid_partitions
    assert "100000 is the most with a name of 249 characters" in result.error_message
    assert not list(home.paths[0].glob("a*-1"))
