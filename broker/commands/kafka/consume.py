"""``siltstone consume``: prints records from an offset or a time, up to the end or without end.

It joins no group and commits nothing. Records of aborted transactions are left out. On a terminal
control characters are spelled out; a file or a pipe gets the bytes as they are.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from siltstone.broker.commands.kafka.broker import END, Broker, Refused, add_connection, why
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.kafka.offset_words import OFFSET_HELP, BadOffset, Place, read_offset
from siltstone.broker.commands.options import ESCAPES, natural, positive
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.errors import CorruptMessage, InvalidRecord, visible
from siltstone.protocol.messages import fetch
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.committed import find_committed
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.dump.line import plain

_FORMAT_HELP: Final = (
    "%%t topic, %%p partition, %%o offset, %%T timestamp in ms, %%k key, %%v value, %%h headers, "
    "%%S size of the value, %%%% a percent sign; \\n and \\t as usual (default: %%v\\n)"
)
_FETCH: Final = Exchange(fetch.REQUEST, fetch.RESPONSE, 12)
_BYTES: Final = 8 << 20
_PARTITION_BYTES: Final = 1 << 20
_WAIT_MS: Final = 500
_COMMITTED: Final = 1
_TOKEN: Final = re.compile(rb"%(.)|\\(.)|%$|\\$", re.DOTALL)


class BadFormat(ValueError):  # noqa: N818  # wrong usage
    """A format makes no sense; the text says why."""


class Printed(NamedTuple):
    """A record and where it stands."""

    topic: str
    partition: int
    record: Record


_FIELDS: Final[dict[bytes, Callable[[Printed], bytes]]] = {
    b"t": lambda each: each.topic.encode(),
    b"p": lambda each: b"%d" % each.partition,
    b"o": lambda each: b"%d" % each.record.offset,
    b"T": lambda each: b"%d" % each.record.timestamp,
    b"k": lambda each: each.record.key or b"",
    b"v": lambda each: each.record.value or b"",
    b"S": lambda each: b"%d" % (-1 if each.record.value is None else len(each.record.value)),
    b"h": lambda each: b",".join(
        b"%s=%s" % (key, value or b"") for key, value in each.record.headers
    ),
}


def add_consume(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to print, in which format, and the broker."""
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "-o",
        "--offset",
        default="start",
        metavar="OFFSET",
        help=f"{OFFSET_HELP} (default: start)",
    )
    parser.add_argument("-n", "--count", type=positive, metavar="COUNT", help="of all partitions")
    parser.add_argument(
        "-p", "--partition", type=natural, action="append", metavar="NUMBER", help="repeatable"
    )
    parser.add_argument("-f", "--format", default="%v\\n", metavar="FORMAT", help=_FORMAT_HELP)
    parser.add_argument(
        "--raw",
        action="store_true",
        help="send a terminal what it would obey, too (default: spelled out, such as \\x1b)",
    )
    parser.add_argument("--follow", action="store_true", help="wait for more at the end")
    add_connection(parser)


def run_consume(options: argparse.Namespace) -> int:
    """Print records; return the exit code."""
    try:
        is_shown = sys.stdout.isatty() and not options.raw
        write = as_json if options.json else read_format(options.format, is_shown=is_shown)
        find_start = read_offset(options.offset)
    except BadFormat as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BadOffset as error:
        sys.stderr.write(f"-o {error}\n")
        return 2
    return run_command(options, lambda broker: _Reader(broker, options, write).run(find_start))


class _Reader:
    """Fetches some partitions and prints their records."""

    def __init__(
        self, broker: Broker, options: argparse.Namespace, write: Callable[[Printed], bytes]
    ) -> None:
        self._broker = broker
        self._options = options
        self._write = write
        self._left = options.count
        self._places: dict[Place, int] = {}

    def run(self, find_start: Callable[[Broker, dict[str, list[int]]], dict[Place, int]]) -> int:
        """Print records from the offsets on that ``find_start`` returns."""
        wanted = self._find_partitions()
        ends = self._broker.offsets(wanted, END, is_committed=True)
        self._places = find_start(self._broker, wanted)
        while not self._is_done(ends):
            self._fetch(ends)
            sys.stdout.buffer.flush()
        return 0

    def _find_partitions(self) -> dict[str, list[int]]:
        found = {}
        for name, topic in self._broker.topics(self._options.topics).items():
            numbers = list(topic.leaders)
            missing = set(self._options.partition or ()) - set(numbers)
            if missing:
                raise Refused(
                    f"topic {name} has no partition {min(missing)}; it has {len(numbers)}"
                )
            found[name] = self._options.partition or numbers
        return found

    def _is_done(self, ends: dict[Place, int]) -> bool:
        if self._left == 0:
            return True
        return not self._options.follow and not self._unread(ends)

    def _unread(self, ends: dict[Place, int]) -> list[Place]:
        return [
            place
            for place, offset in self._places.items()
            if self._options.follow or offset < ends[place]
        ]

    def _fetch(self, ends: dict[Place, int]) -> None:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, number in self._unread(ends):
            offset = self._places[topic, number]
            asked = FetchPartition(
                number, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES
            )
            topics.setdefault(topic, []).append(asked)
        answer = self._broker.ask(
            _FETCH,
            FetchRequest(
                max_wait_ms=_WAIT_MS,
                min_bytes=1,
                max_bytes=_BYTES,
                isolation_level=_COMMITTED,
                topics=[FetchTopic(topic=name, partitions=some) for name, some in topics.items()],
            ),
        )
        for response in answer.responses:
            for part in response.partitions:
                place = (response.topic, part.partition_index)
                if part.error_code:
                    offset = self._places[place]
                    what = f"{place[0]}-{place[1]} from offset {offset}"
                    raise Refused(why(part.error_code, None, what))
                self._take(place, part, ends[place])

    def _take(self, place: Place, part: Any, end: int) -> None:
        """Print a partition's records, and move its next offset past them."""
        for next_offset, records in committed(part):
            for record in records:
                if self._left == 0:
                    return
                if record.offset < self._places[place]:
                    continue
                if not self._options.follow and record.offset >= end:
                    break
                if self._left is not None:
                    self._left -= 1
                sys.stdout.buffer.write(self._write(Printed(*place, record)))
            self._places[place] = max(self._places[place], next_offset)


def committed(part: Any) -> Iterator[tuple[int, Iterable[Record]]]:
    """Yield, for each whole batch of a fetched range, the offset after it and its records.

    Raises:
        Refused: A batch cannot be read.
    """
    aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
    for header, batch in find_committed(part.records or b"", aborted):
        yield header.next_offset, () if batch is None else _records(header, batch)


def _records(header: BatchHeader, batch: memoryview) -> Iterator[Record]:
    try:
        yield from iterate_records(batch)
    except (CorruptMessage, InvalidRecord) as error:
        raise Refused(f"the batch at {header.base_offset} cannot be read: {error}") from error


def as_json(each: Printed) -> bytes:
    """Return a record as a line of JSON; bytes that are not UTF-8 are written in base64."""
    record = each.record
    headers = [[key.decode("utf-8", "replace"), plain(value)] for key, value in record.headers]
    facts = {
        "topic": each.topic,
        "partition": each.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": plain(record.key),
        "value": plain(record.value),
        **({"headers": headers} if headers else {}),
    }
    return json.dumps(facts).encode() + b"\n"


def read_format(text: str, *, is_shown: bool = False) -> Callable[[Printed], bytes]:
    """Return a function that formats a record; with ``is_shown`` control characters are spelled.

    Raises:
        BadFormat: A letter of the format has no meaning.
    """
    data = text.encode("utf-8", "surrogateescape")
    parts: list[bytes | Callable[[Printed], bytes]] = []
    position = 0
    for match in _TOKEN.finditer(data):
        parts.append(data[position : match.start()])
        position = match.end()
        letter, escape = match.groups()
        if letter == b"%":
            parts.append(b"%")
        elif letter in _FIELDS:
            parts.append(_FIELDS[letter])
        elif escape in ESCAPES:
            parts.append(ESCAPES[escape])
        else:
            known = ", ".join(f"%{each.decode()}" for each in _FIELDS)
            raise BadFormat(
                f"-f has {match[0].decode(errors='replace')}; there are {known}, %%, "
                r"\n, \r, \t, \0 and \\"
            )
    parts.append(data[position:])
    spell = _spell if is_shown else bytes
    return lambda each: b"".join(
        [part if isinstance(part, bytes) else spell(part(each)) for part in parts]
    )


def _spell(data: bytes) -> bytes:
    r"""Return data for a terminal, with controls and bytes that are not UTF-8 as ``\x1b``."""
    return visible(data.decode(errors="backslashreplace")).encode()
