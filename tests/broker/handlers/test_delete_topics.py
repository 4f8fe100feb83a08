"""DeleteTopics: by name and by id, each topic once."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 20


async def _delete(
    home: ServicesOnDisk, *topics: tuple[str | None, UUID | None], version: int = 6
) -> list[Any]:
    rows = [{"name": name, "topic_id": each} for name, each in topics]
    wanted = request(KEY, 6, topics=rows)
    if version < 6:
        wanted = request(KEY, version, topic_names=[name for name, _ in topics])
    return list((await ask(home, KEY, wanted, version)).responses)


async def test_by_name_and_by_id(home: ServicesOnDisk) -> None:
    """The answer names both, and both topics are gone."""
    a = await home.services.topics.create("a", 1, {})
    b = await home.services.topics.create("b", 1, {})
    results = await _delete(home, ("a", None), (None, b.id))

    assert [(each.name, each.topic_id, each.error_code) for each in results] == [
        ("a", a.id, ErrorCode.none),
        ("b", b.id, ErrorCode.none),
    ]
    assert not home.services.topics.topics


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("missing", None, ErrorCode.unknown_topic_or_partition),
        ("a/b", None, ErrorCode.unknown_topic_or_partition),
        (None, UUID(int=9), ErrorCode.unknown_topic_id),
        ("a", UUID(int=9), ErrorCode.invalid_request),
        (None, None, ErrorCode.invalid_request),
        ("__consumer_offsets", None, ErrorCode.invalid_topic_exception),
    ],
)
async def test_refusals(
    home: ServicesOnDisk, name: str | None, topic_id: UUID | None, code: ErrorCode
) -> None:
    """The requested names are echoed; nothing is deleted."""
    for each in ("a", "__consumer_offsets"):
        await home.services.topics.create(each, 1, {})
    [result] = await _delete(home, (name, topic_id))

    assert (result.name, result.topic_id, result.error_code) == (name, topic_id, code)
    assert result.error_message
    assert len(home.services.topics.topics) == 2


async def test_the_same_topic_twice_is_not_deleted(home: ServicesOnDisk) -> None:
    """It is refused once: by name twice, and by name and by its id, which are both told."""
    topic = await home.services.topics.create("a", 1, {})
    twice = await _delete(home, ("a", None), ("a", None))
    both = await _delete(home, ("a", None), (None, topic.id))

    assert [each.error_code for each in twice] == [ErrorCode.invalid_request]
    assert [(each.name, each.topic_id, each.error_code) for each in both] == [
        ("a", topic.id, ErrorCode.invalid_request)
    ]
    assert "a" in home.services.topics.topics


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.topic_deletion_disabled), (2, ErrorCode.invalid_request)]
)
async def test_deletion_may_be_off(tmp_path: Path, version: int, code: ErrorCode) -> None:
    """Old versions do not know the code for it."""
    home = await ServicesOnDisk(tmp_path, delete_topic_enable="false").open()
    await home.services.topics.create("a", 1, {})
    [result] = await _delete(home, ("a", None), version=version)

    assert result.error_code is code
    assert "a" in home.services.topics.topics
    await home.close()


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Successes and refusals."""
    await home.services.topics.create("a", 1, {})
    results = await _delete(home, ("a", None), ("b", None), version=version)

    assert [each.error_code for each in results] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
