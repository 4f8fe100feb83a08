"""The cleaner's benchmark: its sets are what they say, and its table judges by the better peer."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.clean.filling import KEY_BYTES, fill
from bench.clean.interference import IDLE
from bench.clean.report import CANNED, FLOOR, Table
from bench.clean.sets import SETS, DataSet
from bench.pictures.demo import COLUMNS, rows_of
from bench.stored import lines_of, merge, read
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import iterate_records
from tests.support.folders import batches, segments

_FILLED = [each for each in SETS if not each.transaction_records]


@pytest.mark.parametrize("data_set", _FILLED, ids=lambda each: each.name)
def test_set_holds_what_it_says(data_set: DataSet, tmp_path: Path) -> None:
    """Every record has a key of 16 bytes, its offset and the value's size; none is missing."""
    small = replace(data_set, records=1000, keys=min(data_set.keys, 100))
    folder = tmp_path / "set"

    fill(small, folder)

    *closed, active = segments(folder)
    data = b"".join(path.read_bytes() for path in closed)
    offset = position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        for record in iterate_records(data[position : position + header.size]):
            assert record.offset == offset
            assert record.key is not None
            assert len(record.key) == KEY_BYTES
            assert len(record.value or b"") == small.value_bytes
            offset += 1
        position += header.size
    assert offset == int(active.stem) == 1000
    assert batches(folder)[-1].records == 1


def test_ratio_is_to_the_better_peer() -> None:
    """Speed is compared with the faster Kafka, cost with the cheaper one."""
    samples = {
        "A": {
            "siltstone": [{"MB/s": 500.0, "CPU us/record": 0.3}],
            "kafka 1 GiB": [{"MB/s": 100.0, "CPU us/record": 1.0}],
            "kafka 256 MiB": [{"MB/s": 125.0, "CPU us/record": 2.0}],
        }
    }

    table = Table(lines_of(samples, {}))

    assert table.ratio("A", "MB/s") == 4
    assert table.ratio("A", "CPU us/record") == 0.3
    assert "≥ 5 MISSED" in table.text()


def test_each_kind_of_case_has_its_own_floor() -> None:
    """A set is held against reading it, produces against a server that stores nothing."""
    lines = lines_of(
        {
            "A": {"siltstone": [{"MB/s": 5.0}], FLOOR: [{"MB/s": 21.0}]},
            IDLE: {"siltstone": [{"p99 us": 70.0}], CANNED: [{"p99 us": 31.0}]},
        },
        {"machine": "m", "date": "d", "commit": "c"},
    )

    head, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in Table(lines).text().split("\n")
    ]

    column = head.index("floor")
    assert {(row[0], row[column]) for row in rows} == {("A", "21"), (IDLE, "31")}


def test_lines_replace_those_of_the_same_case(tmp_path: Path) -> None:
    """A case that is measured again has its new figures only."""
    path = tmp_path / "lines.jsonl"
    merge(path, lines_of({"A": {"x": [{"MB/s": 1.0}]}, "B": {"x": [{"MB/s": 2.0}]}}, {}))

    merge(path, lines_of({"A": {"x": [{"MB/s": 3.0}]}}, {}))

    assert {(line["case"], line["median"]) for line in read(path)} == {("A", 3.0), ("B", 2.0)}


def test_rows_break_between_words() -> None:
    """A long line of the demonstration loses no word and no colour at its end."""
    line = "\x1b[1mbold\x1b[0m " + "word " * 40

    rows = rows_of(line)

    said = " ".join("".join(piece.words for piece in row) for row in rows)
    assert said.split() == ["bold", *["word"] * 40]
    assert all(piece.column + len(piece.words) <= COLUMNS for row in rows for piece in row)
    assert rows[0][0].style.is_bold
    assert not rows[0][1].style.is_bold
