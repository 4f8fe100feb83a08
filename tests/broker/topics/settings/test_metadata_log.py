"""Settings of topics out of the metadata log of Apache Kafka."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.topics.settings.metadata_log import (
    FOLDER,
    count_partitions,
    read_topic_settings,
)
from siltstone.protocol.core.constants import CONTROL
from siltstone.protocol.names import parse_uuid
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record

KAFKAS = Path(__file__).parents[3] / "data" / "settings"
ORDERS = UUID(int=7)
BEGIN, END, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"


def text(value: str | None) -> bytes:
    """Return a compact string, shorter than a varint's first byte."""
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def topic(name: str, topic_id: UUID) -> bytes:
    """Return a TopicRecord."""
    return b"\x01\x02\x00" + text(name) + topic_id.bytes + b"\0"


def config(resource: str, name: str, value: str | None, kind: int = 2) -> bytes:
    """Return a ConfigRecord."""
    return b"\x01\x04\x00" + bytes([kind]) + text(resource) + text(name) + text(value) + b"\0"


def remove(topic_id: UUID) -> bytes:
    """Return a RemoveTopicRecord."""
    return b"\x01\x09\x00" + topic_id.bytes + b"\0"


def batch(values: Sequence[bytes], base_offset: int = 0, flags: int = 0) -> bytearray:
    """Return one batch of records."""
    records = [Record(base_offset + at, 0, None, value) for at, value in enumerate(values)]
    return build_batch(records, base_offset=base_offset, flags=flags)


def write(directory: Path, name: str, *batches: bytes | bytearray) -> Path:
    """Write a file of the metadata log."""
    path = directory / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


def log_of(directory: Path, *batches: bytes | bytearray) -> Path:
    """Write a metadata log of one segment."""
    return write(directory, f"{0:020d}.log", *batches)


def test_what_apache_kafka_wrote_is_read() -> None:
    """A setting that was taken away is gone, an altered one is known; so is a topic's id."""
    found = read_topic_settings([KAFKAS])

    ids = {
        name: parse_uuid((KAFKAS / name / "partition.metadata").read_text().split()[-1])
        for name in ("customers-0", "orders-0", "again-0")
    }
    assert found == {
        ids["customers-0"]: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25"},
        ids["orders-0"]: {
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": "86400000",
            "unclean.leader.election.enable": "true",
        },
        ids["again-0"]: {"segment.ms": "7200000"},  # not of the topic that had this name before
    }


def test_the_partitions_that_apache_kafka_wrote_are_counted() -> None:
    """By the id of their topic."""
    orders = parse_uuid((KAFKAS / "orders-0/partition.metadata").read_text().split()[-1])

    assert count_partitions([KAFKAS])[orders] == 2


def test_no_metadata_log_is_no_settings(tmp_path: Path) -> None:
    """A folder of partitions alone, or of ours."""
    assert read_topic_settings([tmp_path]) == {}


def test_a_snapshot_holds_what_is_before_it(tmp_path: Path) -> None:
    """The newest one counts; records below its offset are in it, and are not read again."""
    write(tmp_path, f"{3:020d}-{1:010d}.checkpoint", batch([topic("old", UUID(int=1))]))
    snapshot = batch([topic("orders", ORDERS), config("orders", "segment.ms", "5")])
    write(tmp_path, f"{9:020d}-{1:010d}.checkpoint", batch([b"\0"], 0, CONTROL), snapshot)
    log_of(
        tmp_path,
        batch([config("orders", "retention.ms", "1")] * 9),
        batch([config("orders", "retention.bytes", "2")], 9),
    )

    expected = {ORDERS: {"segment.ms": "5", "retention.bytes": "2"}}
    assert read_topic_settings([tmp_path]) == expected


def test_segments_are_read_in_their_order(tmp_path: Path) -> None:
    """A later value wins; settings of brokers are not those of a topic of that name."""
    own = [topic("1", ORDERS), config("1", "retention.ms", "1"), config("1", "x", "y", kind=4)]
    log_of(tmp_path, batch(own))
    write(tmp_path, f"{3:020d}.log", batch([config("1", "retention.ms", "2")], 3))

    assert read_topic_settings([tmp_path]) == {ORDERS: {"retention.ms": "2"}}


@pytest.mark.parametrize(
    ("last", "expected"), [([END], {"segment.ms": "1"}), ([ABORT], {}), ([], {})]
)
def test_a_transaction_counts_when_it_ends(
    tmp_path: Path, last: list[bytes], expected: dict[str, str]
) -> None:
    """Changes that the controller aborted, or had not ended when it died, have not happened."""
    inside = [BEGIN, config("orders", "segment.ms", "1"), *last]
    log_of(tmp_path, batch([topic("orders", ORDERS), *inside]))

    assert read_topic_settings([tmp_path]) == {ORDERS: expected}


def test_a_topic_that_was_deleted_takes_its_settings_along(tmp_path: Path) -> None:
    """One that was made later under its name begins without."""
    first, second = UUID(int=1), UUID(int=2)
    own = [topic("a", first), config("a", "segment.ms", "1"), remove(first), topic("a", second)]
    log_of(tmp_path, batch(own))

    assert read_topic_settings([tmp_path]) == {second: {}}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(batch([config("orders", "segment.ms", "2")], 2)[:-1] + b"!", id="CRC"),
        pytest.param(b"\xff" * 80, id="no batch"),
        pytest.param(batch([b"\x01\x04\x00\x02\x7f"], 2), id="cut record"),
        pytest.param(batch([b"\x01\x04\x09\x02"], 2), id="a newer version"),
        pytest.param(batch([b"\x02\x04\x00"], 2), id="another frame"),
        pytest.param(batch([b"\xff"], 2), id="half a varint"),
    ],
)
def test_damage_is_told_and_what_stands_before_counts(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A start goes on; the operator learns which settings to look at."""
    log_of(tmp_path, batch([topic("orders", ORDERS), config("orders", "segment.ms", "1")]), damage)

    assert read_topic_settings([tmp_path]) == {ORDERS: {"segment.ms": "1"}}
    (line,) = caplog.messages
    assert "metadata log of Apache Kafka is read up to a damage" in line


def test_a_torn_end_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka cuts it off, too: nobody was told that it exists."""
    whole = batch([topic("orders", ORDERS)])
    log_of(tmp_path, whole, batch([config("orders", "segment.ms", "1")], 1)[:-1])

    assert read_topic_settings([tmp_path]) == {ORDERS: {}}
    assert caplog.messages == []
