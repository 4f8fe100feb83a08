"""CreateTopics: Kafka's refusals in Kafka's order, and topics that exist when answered."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 19


def wanted(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assign: dict[int, tuple[int, ...]] | list[tuple[int, tuple[int, ...]]] | None = None,
    **configs: str | None,
) -> dict[str, Any]:
    """Return one topic of a request; an underscore in a setting's name is a dot."""
    rows = assign.items() if isinstance(assign, dict) else assign or ()
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in rows],
        "configs": [
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ],
    }


async def _create(
    home: ServicesOnDisk, *topics: Mapping[str, Any], validate_only: bool = False, version: int = 7
) -> list[Any]:
    asked = request(KEY, 7, topics=topics, validate_only=validate_only)
    return list((await ask(home, KEY, asked, version)).topics)


async def test_the_next_metadata_shows_the_topic(home: ServicesOnDisk) -> None:
    """Id, partitions and settings are those of the answer."""
    [result] = await _create(home, wanted("orders", 3, retention_ms="5000"))
    [topic] = (await ask(home, 3, request(3, 13))).topics

    assert result.error_code is ErrorCode.none
    assert (topic.name, topic.topic_id, len(topic.partitions)) == ("orders", result.topic_id, 3)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    configs = {each.name: each for each in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == (
        "delete",
        5,
    )


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("__cluster_metadata"), ErrorCode.invalid_request),
        (wanted(""), ErrorCode.invalid_topic_exception),
        (wanted("."), ErrorCode.invalid_topic_exception),
        (wanted("../x"), ErrorCode.invalid_topic_exception),
        (wanted("x" * 250), ErrorCode.invalid_topic_exception),
        (wanted("é"), ErrorCode.invalid_topic_exception),
        (wanted("ta_ken"), ErrorCode.invalid_topic_exception),
        (wanted("ta.ken", no_such="1"), ErrorCode.topic_already_exists),
        (wanted("t", retention_ms=None), ErrorCode.invalid_config),
        (wanted("t", 0, no_such_setting="1"), ErrorCode.invalid_config),
        (wanted("t", 1, 3, retention_ms="x"), ErrorCode.invalid_config),
        (wanted("t", retention_ms="-5"), ErrorCode.invalid_config),
        (wanted("t", cleanup_policy="zip"), ErrorCode.invalid_config),
        (
            wanted("t", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
            ErrorCode.invalid_config,
        ),
        (wanted("t", -1, 1, assign={0: (1,)}), ErrorCode.invalid_request),
        (wanted("t", 1, -1, assign={0: (1,)}), ErrorCode.invalid_request),
        (wanted("t", -1, -1, assign=[(0, (1,)), (0, (1,))]), ErrorCode.invalid_replica_assignment),
        (wanted("t", -1, -1, assign={0: (1,), 2: (1,)}), ErrorCode.invalid_replica_assignment),
        (wanted("t", -1, -1, assign={1: (1,)}), ErrorCode.invalid_replica_assignment),
        (wanted("t", -1, -1, assign={0: ()}), ErrorCode.invalid_replica_assignment),
        (wanted("t", -1, -1, assign={0: (1, 1)}), ErrorCode.invalid_replica_assignment),
        (wanted("t", -1, -1, assign={0: (5,)}), ErrorCode.invalid_replica_assignment),
        (wanted("t", 1, 0), ErrorCode.invalid_replication_factor),
        (wanted("t", 1, -2), ErrorCode.invalid_replication_factor),
        (wanted("t", 1, 3), ErrorCode.invalid_replication_factor),
        (wanted("t", 0, 0), ErrorCode.invalid_replication_factor),
        (wanted("t", 0), ErrorCode.invalid_partitions),
        (wanted("t", -2), ErrorCode.invalid_partitions),
        (wanted("t", 10_001), ErrorCode.policy_violation),
    ],
)
async def test_refusals(home: ServicesOnDisk, topic: dict[str, Any], code: ErrorCode) -> None:
    """The codes that Apache Kafka 4.3.1 was seen to answer, with a message, and no topic."""
    await home.services.topics.create("ta.ken", 1, {})
    [result] = await _create(home, topic)

    assert result.error_code is code
    assert result.error_message
    assert (result.name, result.topic_id) == (topic["name"], None)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())
    assert set(home.services.topics.topics) == {"ta.ken"}


async def test_minus_one_means_the_default(tmp_path: Path) -> None:
    """Of partitions and of replicas."""
    home = await ServicesOnDisk(tmp_path, num_partitions="4").open()
    [result] = await _create(home, wanted("t", -1, -1))

    assert (result.num_partitions, result.replication_factor) == (4, 1)
    await home.close()


async def test_an_assignment_to_this_broker_is_taken(home: ServicesOnDisk) -> None:
    """Its length is the number of partitions."""
    [result] = await _create(home, wanted("t", -1, -1, assign={1: (1,), 0: (1,)}))

    assert result.error_code is ErrorCode.none
    assert home.services.topics.topics["t"].partitions == 2


async def test_a_name_twice_is_refused_once(home: ServicesOnDisk) -> None:
    """The other topics of the request are made."""
    results = await _create(home, wanted("a"), wanted("a"), wanted("b"))

    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.invalid_request),
        ("b", ErrorCode.none),
    ]


async def test_validating_makes_nothing(home: ServicesOnDisk) -> None:
    """The answer is that of a success, with an id that nobody has."""
    [result] = await _create(home, wanted("t", 2), validate_only=True)

    assert result.error_code is ErrorCode.none
    assert isinstance(result.topic_id, UUID)
    assert result.num_partitions == 2
    assert not home.services.topics.topics


async def test_internal_topics_may_be_made_by_clients(home: ServicesOnDisk) -> None:
    """Some make them before the broker does."""
    [result] = await _create(home, wanted("__consumer_offsets", 3))

    assert result.error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Successes and refusals."""
    results = await _create(home, wanted("a"), wanted("a/b"), version=version)

    assert [each.error_code for each in results] == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
    ]


async def test_the_default_counts_for_the_limit_of_a_request(tmp_path: Path) -> None:
    """Ten topics of 1,001 partitions each are too many, whether or not they say the number."""
    home = await ServicesOnDisk(tmp_path, num_partitions="1001").open()
    results = await _create(home, *(wanted(f"t{number}", -1) for number in range(10)))

    assert {each.error_code for each in results} == {ErrorCode.policy_violation}
    assert home.services.topics.topics == {}
    await home.close()
