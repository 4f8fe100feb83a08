"""The output of a scan: every column, every codec, gaps, markers, aborted transactions."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from siltstone.pipeline.columns import TYPES, arrow_schema
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.decoder import Decoder
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.protocol.core.constants import LOG_APPEND_TIME, NO_SEQUENCE, TRANSACTIONAL
from siltstone.protocol.records import compression
from siltstone.protocol.records.build import ABORT, COMMIT, build_batch, build_marker, frame_batch
from siltstone.protocol.records.record import Record
from siltstone.storage import files
from siltstone.storage.producers.transaction_index import AbortedTransaction
from tests.support.archives import Archive
from tests.support.batches import TIMESTAMP, make_batch

EVERY = tuple(TYPES)
CODECS = range(len(compression.NAMES))


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
def test_every_column_of_every_codec(archive: Archive, codec: int) -> None:
    """Rows have what the records have, and what is known of their batches."""
    headers = ((b"h", b"x"), (b"\xff", None))
    records = [Record(0, TIMESTAMP, b"k", b"v", headers), Record(1, -1, None, None)]
    archive.fill([[make_batch(2)], [build_batch(records, codec=codec)]])

    rows = archive.read(EVERY).to_pylist()

    assert rows[2:] == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "t",
            "partition": 0,
            "offset": 2,
            "timestamp": datetime.fromtimestamp(TIMESTAMP / 1000, UTC),
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"x"}, {"key": "\ufffd", "value": None}],
            "segment": 2,
            "position": 0,
            "batchOffset": 2,
            "producerId": -1,
            "isTombstone": False,
            "timestampMs": TIMESTAMP,
        },
        {
            "key": None,
            "value": None,
            "topic": "t",
            "partition": 0,
            "offset": 3,
            "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
            "timestampType": 0,
            "headers": None,
            "segment": 2,
            "position": 0,
            "batchOffset": 2,
            "producerId": -1,
            "isTombstone": True,
            "timestampMs": -1,
        },
    ]


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
@pytest.mark.parametrize("columns", [("offset",), (), ("partition", "topic"), ("value",)])
def test_fewer_columns_are_the_same_rows(
    archive: Archive, codec: int, columns: tuple[str, ...]
) -> None:
    """Whether headers of batches tell all or records are walked, there are as many rows."""
    archive.fill([[make_batch(7, codec=codec) for _ in range(30)]])
    options = {"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":200}}'}

    found = archive.read(columns, options)

    assert found.num_rows == 197
    if "offset" in columns:
        assert found["offset"].to_pylist() == list(range(3, 200))


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
def test_gaps_of_compaction_are_normal(archive: Archive, codec: int) -> None:
    """A thinned batch has the offsets that are left, also where only offsets are asked for."""
    kept = [Record(offset, TIMESTAMP, b"k", b"v") for offset in (2, 5, 9)]
    thinned = build_batch(kept, codec=codec, base_offset=0, last_offset_delta=9)
    emptied = build_batch([], base_offset=10, last_offset_delta=9)
    archive.fill_exact([thinned, emptied, make_batch(1, base_offset=30)])

    assert archive.read(("offset",))["offset"].to_pylist() == [2, 5, 9, 30]
    assert archive.read(("offset", "key"))["offset"].to_pylist() == [2, 5, 9, 30]
    assert archive.read(()).num_rows == 4


def test_append_time_is_every_records_time(archive: Archive) -> None:
    """Under LogAppendTime the batch's largest timestamp counts, and the type is 1."""
    batch = build_batch(
        [Record(index, TIMESTAMP + index, b"k", b"v") for index in range(3)],
        flags=LOG_APPEND_TIME,
        max_timestamp=TIMESTAMP + 999,
    )
    archive.fill([[batch]])

    found = archive.read(("timestampMs", "timestampType"))

    assert found.to_pylist() == [{"timestampMs": TIMESTAMP + 999, "timestampType": 1}] * 3


def transactions() -> tuple[list[bytearray], list[AbortedTransaction]]:
    """Return an aborted, a committed and an open transaction among plain batches."""

    def data(base: int, producer_id: int) -> bytearray:
        return make_batch(
            2,
            base_offset=base,
            flags=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=base,
        )

    def marker(offset: int, producer_id: int, kind: int) -> bytearray:
        return build_marker(offset, TIMESTAMP, kind, 0, producer_id=producer_id, producer_epoch=0)

    batches = [
        data(0, 1),
        make_batch(2, base_offset=2),
        data(4, 2),
        marker(6, 1, ABORT),
        data(7, 1),
        marker(9, 2, COMMIT),
        marker(10, 1, COMMIT),
        data(11, 3),
        make_batch(1, base_offset=13, base_sequence=NO_SEQUENCE),
    ]
    return batches, [AbortedTransaction(1, 0, 6, 4)]


def test_read_committed_leaves_out_what_was_aborted(archive: Archive) -> None:
    """Aborted batches are no rows, open transactions end the read, markers never are rows."""
    archive.fill_exact(*transactions())
    committed = {"kafka.isolation.level": "read_committed", "splitBytes": "1"}

    assert archive.read(("offset",))["offset"].to_pylist() == [0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13]
    assert archive.read(("offset",), committed)["offset"].to_pylist() == [2, 3, 4, 5, 7, 8]


def test_a_schema_is_arrows(archive: Archive) -> None:
    """Record batches have the types that are promised, in the order that is asked for."""
    archive.fill([[make_batch(1)]])
    names = ("offset", "key", "headers", "topic")

    assert archive.read(names).schema == arrow_schema(names)
    assert arrow_schema(("timestamp",)).field(0).type == pa.timestamp("us", tz="UTC")


def test_an_unknown_column_is_named(archive: Archive) -> None:
    """A column that a topic does not have is refused with those that it has."""
    archive.fill([[make_batch(1)]])

    with pytest.raises(BadOption, match="a topic has no column nonsense; it has key, value"):
        archive.read(("nonsense",))


def test_a_batch_larger_than_a_chunk(archive: Archive) -> None:
    """A batch of many megabytes is read whole."""
    big = make_batch([(b"k", bytes(6 << 20))])
    archive.fill([[make_batch(1), big, make_batch(1)]])
    scanned = Scanned()

    found = archive.read(("offset", "value"), scanned=scanned)

    assert [len(value) for value in found["value"].to_pylist()] == [10, 6 << 20, 10]
    assert scanned.records == 3


def test_more_batches_than_one_survey_lists(archive: Archive) -> None:
    """Thousands of tiny batches in a chunk are all read, in order."""
    batch = make_batch(1)
    folder = archive.fill([[batch]])
    data = bytearray()
    for offset in range(20_000):
        batch[0:8] = offset.to_bytes(8, "big")
        data += batch
    (folder / files.segment_file_name(0)).write_bytes(data)

    assert archive.read(("offset",))["offset"].to_pylist() == list(range(20_000))


@pytest.mark.parametrize("payload", ["7fffffff 00", "ffffffff 00", "00000006 ffffffff0f 00"])
def test_cve_2023_34455_a_snappy_length_sets_nothing_aside(payload: str) -> None:
    """A chunk that states gigabytes is a fault at its place; what came before it is read."""
    head = bytes.fromhex("82534e4150505900 00000001 00000001")
    good = bytes(make_batch(2))
    hostile = frame_batch(head + bytes.fromhex(payload), 1, codec=compression.SNAPPY, base_offset=2)
    split = Split(transport="", topic="t", partition=0, start_offset=0, end_offset=4)
    decoder = Decoder(split, ("value",), Scanned())

    rows = sum(each.num_rows for each in decoder.decode(memoryview(good + bytes(hostile)), 0))

    assert rows == 2
    assert decoder.fault is not None
    assert (decoder.fault.position, "snappy" in decoder.fault.reason) == (len(good), True)
