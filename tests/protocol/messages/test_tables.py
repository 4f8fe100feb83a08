"""A table has one line a field, whatever the version; its reader and writer refuse the rest."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from siltstone.broker.net.buffers import LARGE
from siltstone.protocol import core
from siltstone.protocol.core import read_head
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message, offset_commit, parse_spec
from siltstone.protocol.messages.fetch import (
    RESPONSE,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.parts import FileSlice
from tests.reference import messages as reference
from tests.reference.tables import twin_of
from tests.support.forms import in_both_forms
from tests.support.kafka import KafkaJars

ROOT = Path(__file__).parents[3]


class Row(NamedTuple):
    name: Annotated[str, "string"] = ""
    size: Annotated[int, "int32"] = 0


class Ask(NamedTuple):
    rows: Annotated[list[Row], "[]struct"] = []  # noqa: RUF012  # a default of a field


MESSAGE = Message(99, 0, 2, 1, Ask)


def test_a_new_field_is_one_line() -> None:
    """A version that has it reads and writes it, the versions before are as they were."""

    class Wider(NamedTuple):
        name: Annotated[str, "string"] = ""
        size: Annotated[int, "int32"] = 0
        color: Annotated[str | None, "string 2+ null"] = "red"

    class AskWider(NamedTuple):
        rows: Annotated[list[Wider], "[]struct"] = []  # noqa: RUF012  # a default of a field

    wider = Message(99, 0, 2, 1, AskWider)
    old = MESSAGE.write(1, Ask([Row("a", 1)]))

    assert wider.write(1, AskWider([Wider("a", 1, "blue")])) == old
    assert wider.read(1, old, 0, len(old))[0] == AskWider([Wider("a", 1, "red")])
    new = wider.write(2, AskWider([Wider("a", 1, "blue")]))
    assert wider.read(2, new, 0, len(new))[0] == AskWider([Wider("a", 1, "blue")])


def test_a_new_version_of_a_real_message_is_one_line() -> None:
    """OffsetCommit with a field that Kafka does not have: everything else stays."""
    partition = offset_commit.OffsetCommitRequestPartition

    class Later(NamedTuple):
        partition_index: Annotated[int, "int32"] = 0
        committed_offset: Annotated[int, "int64"] = 0
        committed_leader_epoch: Annotated[int, "int32 6+"] = -1
        committed_metadata: Annotated[str | None, "string null"] = ""
        color: Annotated[int, "int8 11+ tag 0"] = 0

    before = Message(8, 2, 10, 8, partition)
    after = Message(8, 2, 11, 8, Later)

    for version in range(2, 11):
        assert after.write(version, Later(1, 2, 3, "m", 4)) == before.write(
            version, partition(1, 2, 3, "m")
        )
    assert after.write(11, Later(1, 2, 3, "m", 4)).endswith(b"\1\0\1\4")


@pytest.mark.java
def test_the_tables_are_what_the_tool_writes(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Nobody edited one by hand: an edit would be lost the next time."""
    jars = [
        next(kafka_jars.folder.glob(f"kafka-{name}-[0-9]*.jar"))
        for name in ("clients", "group-coordinator", "share-coordinator", "transaction-coordinator")
    ]

    subprocess.run(
        [sys.executable, "-m", "tools.messages", *jars, "--into", tmp_path], cwd=ROOT, check=True
    )

    here = {path.name: path.read_text() for path in (ROOT / "protocol" / "messages").glob("*.py")}
    del here["__init__.py"], here["columns.py"]  # what they are made of, and what kernels look at
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == here


def test_more_elements_than_allowed_are_refused_before_they_are_made() -> None:
    """The count is compared with the room, all arrays and tagged fields together."""
    body = MESSAGE.write(1, Ask([Row("a", 1)] * 100))

    assert len(MESSAGE.read(1, body, 0, len(body), 100)[0].rows) == 100
    with pytest.raises(ProtocolError, match=r"Ask\.rows: more elements .*: 100, with 99 left"):
        MESSAGE.read(1, body, 0, len(body), 99)
    tagged = body[:-1] + b"\2" + b"\5\0" * 2
    with pytest.raises(ProtocolError, match=r"more elements .*: 2, with 1 left"):
        MESSAGE.read(1, tagged, 0, len(tagged), 101)


BOTH = in_both_forms("form", core, reference)


def tables_of(form: Any, message: Message, versions: range) -> list[Any]:
    """Return the tables of a message as a form of the core has them."""
    if form is reference:
        return [twin_of(message, version) for version in versions]
    return [message.table(version) for version in versions]


@BOTH
def test_structures_behind_their_versions_are_put_into_a_grid(form: Any) -> None:
    """Each by the table of its version, numbers as numbers; for what is missing stands a row."""
    row = Message(99, 0, 2, 1, Row)
    tables = tables_of(form, row, range(3))
    cells = [
        version.to_bytes(2) + row.write(version, Row("a" * version, version))
        for version in (2, 0, 1)
    ]
    grid = form.Grid(4, 4)

    form.fill_versioned(grid, 1, tables, [cells[0], None, *cells[1:]], ("-", -1))
    assert grid == [(0, "aa", 2, 0), (0, "-", -1, 0), (0, "", 0, 0), (0, "a", 1, 0)]
    form.fill_versioned(form.Grid(0, 1), 0, tables, [], ("",))
    one = form.Grid(1, 2)
    form.fill_versioned(one, 1, tables, [cells[0]], ("",))
    assert one == [(0, "aa")]
    for strange in (b"\0\3" + cells[0][2:], b"\xff\xff", b"\0", b""):
        with pytest.raises(IndexError, match="no table for version"):
            form.fill_versioned(one, 0, tables, [strange], ("", 0))
    with pytest.raises(ProtocolError, match="in a frame that ends at"):
        form.fill_versioned(one, 0, tables, [cells[0][:-3]], ("", 0))
    with pytest.raises(TypeError, match="is no number"):
        form.fill_versioned(one, 0, tables, [cells[0]], (0,))
    for first, count in ((1, 1), (-1, 1), (0, 2)):
        with pytest.raises(IndexError, match="2 columns from"):
            form.fill_versioned(one, first, tables, [cells[0]] * count, ("", 0))


@BOTH
def test_a_grid_is_a_sequence_of_rows(form: Any) -> None:
    """Each is a tuple that is made when it is asked for; what does not exist is refused."""
    grid = form.Grid(3, 2)
    for place in range(3):
        grid.put(place, 1, place << 40)
    grid.put_column(0, ["a", None, "c", "left over"])
    rows = [("a", 0), (None, 1 << 40), ("c", 2 << 40)]

    assert (len(grid), list(grid), grid[1], grid[-1]) == (3, rows, rows[1], rows[2])
    assert (grid[1:], grid[:-1], repr(grid)) == (rows[1:], rows[:-1], repr(rows))
    assert grid == rows
    assert grid != rows[:2]
    assert form.grid_of(grid, 1) is grid
    assert form.grid_of([(1, 2, 3), (4, 5, 6)], 2) == [(1, 2), (4, 5)]
    assert form.grid_of([(1, "a"), (2, None)], 2) == [(1, "a"), (2, None)]
    for place, column in ((3, 0), (-1, 0), (0, 2), (0, -1)):
        with pytest.raises(IndexError):
            grid.put(place, column, 1)
    for column, values in ((2, [1, 2, 3]), (-1, [1, 2, 3]), (0, [1, 2])):
        with pytest.raises(IndexError):
            grid.put_column(column, values)
    for place in (3, -4):
        with pytest.raises(IndexError):
            grid[place]
    for size in ((-1, 1), (1, 0)):
        with pytest.raises(ValueError, match="rows of"):
            form.Grid(*size)


class Numbers(NamedTuple):
    """Nothing but numbers, not all of them in all versions."""

    partition: Annotated[int, "int32"] = 0
    size: Annotated[int, "int64 1+"] = -7
    is_new: Annotated[bool, "bool 2+"] = True
    error_code: Annotated[int, "int16"] = 0


class AskNumbers(NamedTuple):
    rows: Annotated[list[Numbers], "[]struct"] = []  # noqa: RUF012  # a default of a field
    last: Annotated[int, "int8"] = 0


@BOTH
@pytest.mark.parametrize("version", range(4))
def test_structures_of_numbers_are_read_and_written_as_grids(form: Any, version: int) -> None:
    """They are what they would be one by one, in every version; and so are their errors."""
    message = Message(99, 0, 3, 1, AskNumbers)
    (table,) = tables_of(form, message, range(version, version + 1))
    rows = [Numbers(-1, 1 << 62, False, 3), Numbers(), Numbers(5, -5, True, -1)]
    grid = form.Grid(3, 4)
    for place, row in enumerate(rows):
        for column, value in enumerate(row):
            grid.put(place, column, value)
    body = message.write(version, AskNumbers(rows, 9))
    told: list[int] = []

    assert form.write(table, AskNumbers(grid, 9)) == body
    assert form.write_response(table, AskNumbers(grid, 9), 1, False, told)[8:] == body
    assert told == [3, -1]
    assert form.write_response(table, AskNumbers(grid, 9), 1, False, None, 2) is None
    found, end = form.read(table, body, 0, len(body), 3)
    assert end == len(body)
    expected = [
        each._replace(
            size=each.size if version else -7, is_new=each.is_new if version > 1 else True
        )
        for each in rows
    ]
    assert found == AskNumbers(expected, 9)
    assert {type(each) for each in found.rows} == {Numbers}
    assert [type(each.is_new) for each in found.rows] == [bool] * 3
    for size in range(len(body)):
        with pytest.raises(ProtocolError):
            form.read(table, body, 0, size, 3)
    with pytest.raises(ProtocolError, match="3, with 2 left"):
        form.read(table, body, 0, len(body), 2)


@BOTH
def test_structures_of_numbers_may_have_tagged_fields(form: Any) -> None:
    """Which nobody knows: they are skipped, whichever element has them."""
    message = Message(99, 0, 3, 1, AskNumbers)
    (table,) = tables_of(form, message, range(1, 2))
    rows = [Numbers(1), Numbers(2), Numbers(3)]
    body = message.write(1, AskNumbers(rows))
    size = len(message.write_part(1, rows[0]))
    for place in range(3):
        end = 1 + (place + 1) * size
        tagged = body[: end - 1] + b"\1\7\2ab" + body[end:]

        assert form.read(table, tagged, 0, len(tagged), 4) == (AskNumbers(rows), len(tagged))


class Noted(NamedTuple):
    """Numbers and one text, which not all versions have."""

    partition: Annotated[int, "int32"] = 0
    note: Annotated[str | None, "string 1+ null"] = "-"
    offset: Annotated[int, "int64"] = 0
    color: Annotated[int, "int8 3+ tag 0"] = 7


class AskNoted(NamedTuple):
    rows: Annotated[list[Noted], "[]struct"] = []  # noqa: RUF012  # a default of a field
    last: Annotated[int, "int8"] = 0


@BOTH
@pytest.mark.parametrize("version", range(4))
def test_structures_of_numbers_and_a_text_are_read_as_they_are(form: Any, version: int) -> None:
    """Whole, cut anywhere, and with tagged fields of which one is known."""
    message = Message(99, 0, 3, 2, AskNoted)
    (table,) = tables_of(form, message, range(version, version + 1))
    rows = [Noted(1, "läuft", 1 << 40), Noted(2, None, -1), Noted(3, "", 5)]
    body = message.write(version, AskNoted(rows, 9))
    expected = [each._replace(note=each.note if version else "-") for each in rows]

    found, end = form.read(table, body, 0, len(body), 3)
    assert (found, end) == (AskNoted(expected, 9), len(body))
    assert {type(each) for each in found.rows} == {Noted}
    for size in range(len(body)):
        reasons = set()
        for each in (form, reference):
            (twin,) = tables_of(each, message, range(version, version + 1))
            with pytest.raises(ProtocolError) as refusal:
                each.read(twin, body, 0, size, 3)
            reasons.add(str(refusal.value))
        assert len(reasons) == 1
    if version == 3:
        told = [*rows[:2], rows[2]._replace(color=1)]
        body = message.write(version, AskNoted(told, 9))
        assert form.read(table, body, 0, len(body), 4) == (AskNoted(told, 9), len(body))
        with pytest.raises(ProtocolError, match="1, with 0 left"):
            form.read(table, body, 0, len(body), 3)


@BOTH
@pytest.mark.parametrize("version", range(4))
def test_structures_may_be_written_that_differ_in_numbers_alone(form: Any, version: int) -> None:
    """They are what they are one by one; what is no number, or missing, is refused."""
    row = Message(99, 0, 3, 2, Noted)
    (table,) = tables_of(form, row, range(version, version + 1))
    grid = form.grid_of([(10, "a", 1), (20, "b", 2), (30, "c", 1 << 40)], 3)
    like = Noted(7, "läuft", 8, 9)

    written = form.write_alike(table, like, 5, grid, (0, -1, 2, -1), 1, 3)

    assert written == [
        b"\0\5" + row.write(version, like._replace(partition=index, offset=offset))
        for index, offset in ((20, 2), (30, 1 << 40))
    ]
    assert form.write_alike(table, like, 5, grid, (-1, -1, -1, -1), 2, 2) == []
    for start, stop in ((-1, 1), (2, 1), (0, 4)):
        with pytest.raises(IndexError):
            form.write_alike(table, like, 5, grid, (0, -1, -1, -1), start, stop)
    for columns in ((0, -1, -1), (3, -1, -1, -1)):
        with pytest.raises(IndexError):
            form.write_alike(table, like, 5, grid, columns, 0, 1)
    with pytest.raises(OverflowError, match=r"Noted\.partition cannot be 1099511627776"):
        form.write_alike(table, like, 5, grid, (2, -1, -1, -1), 0, 3)
    with pytest.raises((TypeError, OverflowError)):
        form.write_alike(table, like, 5, grid, (1, -1, -1, -1), 0, 3)
    with pytest.raises(TypeError, match="fields, not"):
        form.write_alike(table, (1, 2), 5, grid, (0, -1, -1, -1), 0, 3)


@BOTH
def test_a_grid_that_does_not_fit_is_refused(form: Any) -> None:
    """Another number of columns, a number that is too large, a missing text."""
    (table,) = tables_of(form, Message(99, 0, 3, 1, AskNumbers), range(1))
    grid = form.Grid(1, 4)
    grid.put(0, 0, 1 << 31)

    with pytest.raises(OverflowError, match=r"Numbers\.partition cannot be 2147483648"):
        form.write(table, AskNumbers(grid))
    with pytest.raises(TypeError):
        form.write(table, AskNumbers(form.Grid(1, 3)))
    (table,) = tables_of(form, MESSAGE, range(1))
    for strange in (form.Grid(1, 2), form.Grid(1, 3)):
        with pytest.raises((TypeError, AttributeError)):
            form.write(table, Ask(strange))
    named = form.Grid(1, 2)
    named.put_column(0, ["a"])
    assert form.write(table, Ask(named)) == MESSAGE.write(0, Ask([Row("a", 0)]))


MANY = [
    OffsetCommitRequestTopic(
        f"t{topic}",
        bytes(16),
        [OffsetCommitRequestPartition(index, index, 1, "m" * topic) for index in range(count)],
    )
    for topic, count in enumerate([0, 1, 2500, 3, 999, 1000, 1001, 0, *[1] * 1500])
]


ELEMENTS = len(MANY) + sum(len(topic.partitions) for topic in MANY)


@BOTH
@pytest.mark.parametrize("version", [2, 9, 10])
def test_many_elements_are_read_in_steps(form: Any, version: int) -> None:
    """The steps give what is read at once, and each step has about a thousand elements."""
    request = offset_commit.OffsetCommitRequest("g", 1, "m", None, -1, MANY)
    body = b"head" + offset_commit.REQUEST.write(version, request)
    expected = offset_commit.REQUEST.read(version, body, 4, len(body))
    table: Any = offset_commit.REQUEST.table(version)
    if form is reference:
        table = twin_of(offset_commit.REQUEST, version)

    steps = form.read_in_steps(table, body, 4, len(body), 25_000)

    assert run(steps, at_least=7) == expected
    assert form.read(table, body, 4, len(body), 25_000, ELEMENTS - 1) == (None, -1)
    assert form.read(table, body, 4, len(body), 25_000, ELEMENTS) == expected
    with pytest.raises(ProtocolError, match="more elements than one request may have"):
        run(form.read_in_steps(table, body, 4, len(body), ELEMENTS - 1))
    with pytest.raises(ProtocolError, match="in a frame that ends at"):
        run(form.read_in_steps(table, body, 4, len(body) - 10, 25_000))


@BOTH
@pytest.mark.parametrize("version", [4, 12, 18])
def test_many_elements_are_written_in_steps(form: Any, version: int, tmp_path: Path) -> None:
    """The steps give what is written at once: bytes, ranges of files and error codes."""
    with (tmp_path / "log").open("w+b") as file:
        records = FileSlice(file, 0, 10)
    topics = [
        FetchableTopicResponse(
            f"t{topic}",
            bytes(16),
            [
                PartitionData(
                    index, index % 3, 5, 5, 0, records=records if index % 500 == 7 else b""
                )
                for index in range(count)
            ],
        )
        for topic, count in enumerate([1, 2500, 0, 999, 1001, *[1] * 1500])
    ]
    table = RESPONSE.table(version) if form is core else twin_of(RESPONSE, version)
    arguments = table, FetchResponse(responses=topics), 7, RESPONSE.has_tagged_head(version)
    errors: list[int] = []
    expected = form.write_response(*arguments, errors)
    told: list[int] = []

    assert run(form.write_response_in_steps(*arguments, told), at_least=5) == expected
    assert told == errors
    few: list[int] = []
    assert form.write_response(*arguments, few, 5000) is None
    assert few == []
    assert form.write_response(*arguments, few, 10_000) == expected


def run(steps: Iterator[None], at_least: int = 0) -> Any:
    """Return what steps come to."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert count >= at_least
            return end.value
        count += 1


def test_a_count_that_cannot_be_there_is_refused() -> None:
    """Two thousand million elements of at least six bytes are not in forty bytes."""
    body = (0x7FFFFFFF).to_bytes(4) + bytes(40)

    with pytest.raises(ProtocolError, match=r"Ask\.rows: an array of 2147483647 elements"):
        MESSAGE.read(0, body, 0, len(body))


@pytest.mark.parametrize("version", [0, 1])
def test_a_string_has_at_most_32767_bytes(version: int) -> None:
    """In both encodings, as Kafka's generated readers have it."""
    longest = MESSAGE.write(version, Ask([Row("n" * 32767, 1)]))

    assert len(MESSAGE.read(version, longest, 0, len(longest))[0].rows[0].name) == 32767
    with pytest.raises(OverflowError, match=r"Row\.name has 32768 bytes"):
        MESSAGE.write(version, Ask([Row("n" * 32768, 1)]))
    if version:
        longer = b"\2" + b"\x81\x80\x02" + b"n" * 32768 + bytes(9)
        with pytest.raises(ProtocolError, match=r"Row\.name: a string of 32768 bytes"):
            MESSAGE.read(version, longer, 0, len(longer))


def test_text_that_is_no_utf8_is_read_as_java_reads_it() -> None:
    """Malformed text becomes U+FFFD, half of a surrogate pair a single one."""
    for table, read in readers(MESSAGE, 0):
        for malformed, text in ((b"caf\xc3A", "caf\ufffdA"), (b"\xed\xa0\x80cd", "\ufffdcd")):
            body = MESSAGE.write(0, Ask([Row("a" * 5, 1)])).replace(b"aaaaa", malformed)

            assert read(table, body, 0, len(body), 9)[0].rows[0].name == text


def test_text_that_could_not_be_written_again_is_refused() -> None:
    """Each malformed byte is three as U+FFFD."""
    for table, read in readers(MESSAGE, 0):
        for count in (10_922, 10_923):
            body = MESSAGE.write(0, Ask([Row("a" * count, 1)])).replace(b"a", b"\xff")
            if count * 3 <= 32_767:
                assert read(table, body, 0, len(body), 9)[0].rows[0].name == "\ufffd" * count
                continue
            with pytest.raises(ProtocolError, match=r"Row\.name: a text of 32769 bytes"):
                read(table, body, 0, len(body), 9)


@pytest.mark.parametrize("length", [-1, -2, -32768])
def test_any_length_below_0_is_null_where_null_may_be(length: int) -> None:
    """As Kafka's generated classes read it; elsewhere it is refused as null is."""

    class Nulls(NamedTuple):
        text: Annotated[str | None, "string null"] = ""
        data: Annotated[bytes | None, "bytes null"] = b""
        rows: Annotated[list[Row] | None, "[]struct null"] = None
        numbers: Annotated[list[int] | None, "[]int32 null"] = None

    message = Message(99, 0, 1, 1, Nulls)
    body = struct.pack(">hiii", length, length, length * 60_000, length)
    compact = b"\x80\x80\x80\x80\x0f" + b"\xff\xff\xff\xff\x7f" + b"\0\0" + b"\0"
    for version, octets in ((0, body), (1, compact)):
        for table, read in readers(message, version):
            found = read(table, octets, 0, len(octets), 9)[0]
            assert found == Nulls(None, None, None, None)
    for table, read in readers(message, 1):
        with pytest.raises(ProtocolError, match=r"Nulls\.text: a string of 2147483647"):
            read(table, b"\x80\x80\x80\x80\x08" + bytes(9), 0, 14, 9)
    for table, read in readers(MESSAGE, 0):
        with pytest.raises(ProtocolError, match=r"Ask\.rows: null, where an array"):
            read(table, body[2:6], 0, 4, 9)


@pytest.mark.parametrize("version", [0, 1])
def test_long_bytes_of_a_request_are_not_copied(version: int) -> None:
    """Each page of a copy would be made while the loop stands still.

    A frame with so many has a buffer of its own, which is kept until the answer.
    """

    class Octets(NamedTuple):
        octets: Annotated[bytes | memoryview, "octets"] = b""

    message = Message(99, 0, 1, 1, Octets)
    for size, kind in ((LARGE - 1, bytes), (LARGE, memoryview)):
        frame = bytearray(message.write(version, Octets(b"o" * size)))
        for table, read in readers(message, version):
            row, end = read(table, frame, 0, len(frame), 9)
            assert type(row.octets) is kind
            assert row.octets == b"o" * size
            assert end == len(frame)


def test_null_of_a_structure_is_another_byte_in_a_tagged_field() -> None:
    """-1 in its place, 0 behind a tag, as Kafka's generated classes have it."""

    class Part(NamedTuple):
        size: Annotated[int, "int8"] = 0

    class Whole(NamedTuple):
        plain: Annotated[Part | None, "struct null"] = None
        tagged: Annotated[Part | None, "struct null tag 0"] = Part()

    message = Message(99, 0, 0, 0, Whole)

    for (table, write), (_, read) in zip(both(message, 0), readers(message, 0), strict=True):
        for row, body in (
            (Whole(None, None), b"\xff\1\0\1\0"),
            (Whole(Part(7), Part(8)), b"\1\7\0\1\0\3\1\x08\0"),
            (Whole(None, Part()), b"\xff\0"),
        ):
            assert write(table, row) == body
            assert read(table, body, 0, len(body), 9)[0] == row


@pytest.mark.parametrize(
    ("row", "error", "reason"),
    [
        (Row("a", 1 << 31), OverflowError, "Row.size cannot be 2147483648"),
        (Row("a", -(1 << 31) - 1), OverflowError, "Row.size cannot be -2147483649"),
        (Row(None, 1), TypeError, "Row.name cannot be null"),  # type: ignore[arg-type]
        (("a",), TypeError, "Row has 2 fields, not"),
        (["a", 1], TypeError, "Row has 2 fields, not"),
    ],
)
def test_a_wrong_value_is_not_written(row: Any, error: type[Exception], reason: str) -> None:
    """The fault is the broker's own, and it says which field."""
    for table, write in both(MESSAGE, 0):
        with pytest.raises(error, match=reason):
            write(table, Ask([row]))


def both(message: Message, version: int) -> list[Any]:
    """Return the table and the function that writes by it, of either form."""
    return [(message.table(version), core.write), (twin_of(message, version), reference.write)]


def readers(message: Message, version: int) -> list[Any]:
    """Return the table and the function that reads by it, of either form."""
    return [(message.table(version), core.read), (twin_of(message, version), reference.read)]


def test_an_element_may_be_bytes_that_were_written_before() -> None:
    """They are copied: this is how answers that seldom change are kept."""
    row = Row("a", 7)
    kept = Message(99, 0, 2, 1, Row).write(1, row)

    assert MESSAGE.write(1, Ask([kept, row])) == MESSAGE.write(1, Ask([row, row]))  # type: ignore[list-item]


def test_ranges_of_files_stay_ranges(tmp_path: Path) -> None:
    """A response is cut where one stands; its size counts the bytes that it will be."""
    with (tmp_path / "f").open("wb+") as file:
        ranges = [FileSlice(file, 0, 300), FileSlice(file, 900, 5)]
        rows = [PartitionData(number, records=each) for number, each in enumerate(ranges)]
        in_full = [each._replace(records=bytes(len(each.records))) for each in rows]  # type: ignore[arg-type]

        def respond(partitions: list[PartitionData]) -> Any:
            topic = FetchableTopicResponse("t", partitions=partitions)
            return RESPONSE.respond(12, 5, FetchResponse(responses=[topic]))

        parts = respond(rows)
        assert [part for part in parts if isinstance(part, FileSlice)] == ranges
        written = [bytes(len(part)) if isinstance(part, FileSlice) else part for part in parts]
        assert b"".join(written) == respond(in_full)


def test_error_codes_are_reported_by_the_writer() -> None:
    """Those that are not zero, at any depth, for the metrics."""
    rows = [PartitionData(0, 3), PartitionData(1, 0), PartitionData(2, 6)]
    errors: list[int] = []

    RESPONSE.respond(
        12,
        5,
        FetchResponse(error_code=70, responses=[FetchableTopicResponse("t", partitions=rows)]),
        errors,
    )

    assert errors == [70, 3, 6]


SERVED = [None, None, (1, 3, 2)]


@pytest.mark.parametrize("read", [read_head, reference.read_head])
@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\0\2\0\1\0\0\0\7\0\2me", (2, 1, 7, "me", 12)),
        (b"\0\2\0\1\0\0\0\7\xff\xff", (2, 1, 7, None, 10)),
        (b"\0\2\0\1\0\0\0\7\xff\xfe", (2, 1, 7, None, 10)),
        (b"\0\2\0\2\0\0\0\7\x80\0\0", (2, 2, 7, None, 11)),
        (b"\0\2\0\2\0\0\0\7\0\0\0", (2, 2, 7, "", 11)),
        (b"\0\2\0\2\0\0\0\7\0\0\1\5\2xx", (2, 2, 7, "", 15)),
        (b"\0\2\0\4\0\0\0\7", (2, 4, 7, None, -1)),
        (b"\0\1\0\1\0\0\0\7", (1, 1, 7, None, -1)),
        (b"\x7f\xff\0\1\0\0\0\7", (0x7FFF, 1, 7, None, -1)),
        (b"\xff\xff\0\1\0\0\0\7", (-1, 1, 7, None, -1)),
    ],
)
def test_heads(read: Any, head: bytes, expected: Any) -> None:
    """Of what is not served only the numbers are read, so that ApiVersions can be answered."""
    assert read(head + b"body", 0, len(head), SERVED) == expected


@pytest.mark.parametrize("read", [read_head, reference.read_head])
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\0\2\0\1\0\0\0", "a frame of 7 bytes holds no request header"),
        (b"\0\2\0\1\0\0\0\7\0", r"header\.client_id: a field of 2 bytes"),
        (b"\0\2\0\1\0\0\0\7\0\3me", r"header\.client_id: a field of 3 bytes"),
        (b"\0\2\0\2\0\0\0\7\0\0", r"header\.tagged fields: no varint ends"),
        (b"\0\2\0\2\0\0\0\7\0\0\1\5\3xx", r"header\.tagged fields: a field of 3 bytes"),
        (
            b"\0\2\0\2\0\0\0\7\0\0\x91\x4e" + b"\5\0" * 10001,
            r"header\.tagged fields: more elements .*: 10001",
        ),
    ],
)
def test_heads_that_are_none(read: Any, head: bytes, reason: str) -> None:
    """Each is refused with what is wrong."""
    with pytest.raises(ProtocolError, match=reason):
        read(head, 0, len(head), SERVED)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("int32", ("int32", "", None, -1)),
        ("[]struct 4+ null 5-6 tag 3", ("[]struct", "4+", "5-6", 3)),
        ("string null", ("string", "", "", -1)),
    ],
)
def test_specs(spec: str, expected: Any) -> None:
    """The words of an annotation."""
    assert parse_spec(spec) == expected


@pytest.mark.parametrize("spec", ["int", "int32 nil", "int32 4+ tag 1 more"])
def test_specs_that_are_none(spec: str) -> None:
    """A word that nobody knows is not passed over."""
    with pytest.raises(ValueError, match="describes no field"):
        parse_spec(spec)
