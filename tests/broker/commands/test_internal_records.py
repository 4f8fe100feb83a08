"""Records of internal topics as a dump shows them: by what they mean."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.__main__ import main
from siltstone.config.topic import TopicConfig
from siltstone.protocol.coordinator import transaction_records
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    RecordType,
    encode_key,
    encode_value,
)
from siltstone.protocol.coordinator.group_records import offset_key
from siltstone.protocol.names import uuid_text
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import make_batch
from tests.support.commits import commit
from tests.support.running import running
from tests.support.segments import append


def dump(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return what dump-log prints."""
    assert main(["dump-log", *map(str, words)]) == 0
    return capsys.readouterr().out


async def test_a_committed_offset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the broker has written it: group, topic, partition, offset."""
    async with running(tmp_path, "offsets.topic.num.partitions=1") as broker:
        await broker.topics.create("orders", 1, {})
        await commit(broker, "billing", 7)
    folder = tmp_path / "__consumer_offsets-0"

    shown = dump(capsys, "--print-data", folder)
    hidden = dump(capsys, "--deep-iteration", folder)
    lines = dump(capsys, "--print-data", "--json", folder / f"{0:020}.log").splitlines()

    assert "about=offset group=billing topic=orders partition=0 offset=7" in shown
    assert "topic_id=None" in shown
    assert "billing" not in hidden
    (told,) = (each for each in map(json.loads, lines) if each.get("means"))
    assert told["offset"] == 0
    assert told["means"]["offset"] == 7
    assert told["means"]["topic_id"] is None


def write(folder: Path, *records: tuple[bytes, bytes | None]) -> Path:
    """Return a folder that has these records."""
    folder.mkdir()
    segment = LogSegment(folder, 0, TopicConfig(), now_ms=0, open_files=OpenFiles()).create()
    append(segment, make_batch(list(records)))
    segment.close()
    return folder


def test_transactions_and_deletions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The state by Kafka's name; a record without a value deletes."""
    value = transaction_records.TransactionLogValue(
        producer_id=5,
        previous_producer_id=-1,
        next_producer_id=-1,
        producer_epoch=2,
        timeout_ms=60_000,
        status=1,
        partitions=frozenset({("orders", 3), ("orders", 1)}),
        started_ms=10,
        updated_ms=11,
        client_version=2,
    )
    key = transaction_records.encode_key("copier")
    folder = write(
        tmp_path / "__transaction_state-4",
        (key, transaction_records.encode_value(value)),
        (key, None),
        (b"nonsense", b"x"),
    )

    out = dump(capsys, "--print-data", folder)

    assert "transactional_id=copier state=ONGOING producer_id=5 producer_epoch=2" in out
    assert "partitions=['orders-1', 'orders-3']" in out
    assert "transactional_id=copier deleted=True" in out
    assert "key=b'nonsense' value=b'x'" in out


def test_topics_of_users_are_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even if a key looks like that of an offset."""
    folder = write(tmp_path / "orders-0", (offset_key("g", "t", 0), None))

    out = dump(capsys, "--print-data", folder)

    assert "about=" not in out
    assert "key=b" in out


def test_values_within_values_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids as Kafka prints them, sets as lists; bytes that are no text in base64."""
    topic_id = UUID(int=1)
    folder = write(
        tmp_path / "__consumer_offsets-4",
        (
            encode_key(ConsumerGroupKey(RecordType.TARGET_MEMBER, "readers", "member")),
            encode_value(RecordType.TARGET_MEMBER, {topic_id: frozenset({2, 1})}),
        ),
        (b"\xff", b"text"),
    )

    out = dump(capsys, "--print-data", "--json", folder / f"{0:020}.log")

    _, member, strange = map(json.loads, out.splitlines())
    assert member["means"]["value"] == {uuid_text(topic_id): [1, 2]}
    assert (strange["key"], strange["value"]) == ({"base64": "/w=="}, "text")
