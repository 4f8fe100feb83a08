"""``siltstone produce``: sends each line of the input as a record.

The lines that have arrived are sent before the command waits for more. So the lines of a slow
writer arrive at once, and those of a fast writer in large batches.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import BinaryIO, Final, NamedTuple

from siltstone.broker.commands.explain_text import counted
from siltstone.broker.commands.kafka.broker import Broker, Refused, add_connection, why
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.options import ESCAPES, natural
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages import produce
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.compression import NAMES
from siltstone.protocol.records.record import Record
from siltstone.storage.clock import Clock

_PRODUCE: Final = Exchange(produce.REQUEST, produce.RESPONSE, 9)
_READ_BYTES: Final = 1 << 17
_MS: Final = 30_000
_ALL: Final = -1
_TOO_LARGE: Final = {ErrorCode.message_too_large, ErrorCode.record_list_too_large}


class Row(NamedTuple):
    """A key and a value; a key of None means no key, and a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


def add_produce(parser: argparse.ArgumentParser) -> None:
    """Add the options: how a line becomes a record, and the broker."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-k",
        "--key-separator",
        type=_separator,
        metavar="TEXT",
        help="what stands between key and value of a line; \\t is a tab",
    )
    parser.add_argument(
        "--tombstones", action="store_true", help="an empty value after a key is a tombstone"
    )
    parser.add_argument("-p", "--partition", type=natural, metavar="NUMBER")
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="repeatable"
    )
    parser.add_argument("-z", "--compression", choices=NAMES, default="none")
    add_connection(parser)


def run_produce(options: argparse.Namespace) -> int:
    """Send the input; return the exit code."""
    if sys.stdin is None:  # standard input was closed before the start
        sys.stderr.write("the input is closed; send lines to standard input\n")
        return 1
    headers = []
    for each in options.header:
        name, equals, value = each.partition("=")
        if not equals or not name:
            sys.stderr.write(f"-H {each}: write NAME=VALUE\n")
            return 2
        headers.append(
            (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
        )
    if options.tombstones and options.key_separator is None:
        sys.stderr.write("--tombstones wants --key-separator: only a key can be deleted\n")
        return 2
    return run_command(options, lambda broker: _Sender(broker, options, tuple(headers)).send_all())


def _separator(text: str) -> bytes:
    """Return the bytes that separate the key from the value."""
    data = text.encode("utf-8", "surrogateescape")
    if not data:
        raise argparse.ArgumentTypeError("nothing parts nothing; name a character, such as :")
    return re.sub(rb"\\(.)", lambda match: ESCAPES.get(match[1], match[0]), data)


class _Sender:
    """Sends lines to one topic."""

    def __init__(
        self, broker: Broker, options: argparse.Namespace, headers: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        self._broker = broker
        self._options = options
        self._headers = headers
        self._clock = Clock()
        self._sent = 0
        self._turn = 0

    def send_all(self) -> int:
        """Send the whole input."""
        topic = self._options.topic
        partitions = list(self._broker.topics([topic])[topic].leaders)
        wanted = self._options.partition
        if wanted is not None and wanted not in partitions:
            raise Refused(f"topic {topic} has no partition {wanted}; it has {len(partitions)}")
        try:
            numbers = count(1)
            for lines in lines_of(sys.stdin.buffer):
                rows = [self._split(line, next(numbers)) for line in lines]
                self._send(rows, partitions if wanted is None else [wanted])
        finally:
            self._tell()
        return 0

    def _split(self, line: bytes, number: int) -> Row:
        separator = self._options.key_separator
        if separator is None:
            return Row(None, line)
        key, found, value = line.partition(separator)
        if not found:
            shown = repr(separator).removeprefix("b")
            raise Refused(f"line {number} has no {shown} between key and value")
        return Row(key, None if self._options.tombstones and not value else value)

    def _send(self, rows: Sequence[Row], partitions: Sequence[int]) -> None:
        self._turn += 1
        without_key = partitions[self._turn % len(partitions)]
        by_partition: dict[int, list[Row]] = {}
        for row in rows:
            number = without_key
            if row.key is not None:
                number = partitions[partition_for(row.key, len(partitions))]
            by_partition.setdefault(number, []).append(row)
        self._send_batches(by_partition)

    def _send_batches(self, by_partition: Mapping[int, Sequence[Row]]) -> None:
        """Send a batch to each of these partitions; a batch that is too large is sent in halves."""
        data = [
            produce.PartitionProduceData(each, self._batch(some))
            for each, some in by_partition.items()
        ]
        request = produce.ProduceRequest(
            acks=_ALL,
            timeout_ms=_MS,
            topic_data=[produce.TopicProduceData(name=self._options.topic, partition_data=data)],
        )
        answer = self._broker.ask(_PRODUCE, request)
        for topic in answer.responses:
            for each in topic.partition_responses:
                rows = by_partition[each.index]
                if each.error_code in _TOO_LARGE and len(rows) > 1:
                    half = len(rows) // 2
                    self._send_batches({each.index: rows[:half]})
                    self._send_batches({each.index: rows[half:]})
                elif each.error_code:
                    what = f"{topic.name}-{each.index}"
                    raise Refused(why(each.error_code, each.error_message, what))
                else:
                    self._sent += len(rows)

    def _batch(self, rows: Sequence[Row]) -> bytes:
        now_ms = self._clock.now_ms()
        records = [
            Record(number, now_ms, row.key, row.value, self._headers)
            for number, row in enumerate(rows)
        ]
        return bytes(build_batch(records, codec=NAMES.index(self._options.compression)))

    def _tell(self) -> None:
        if self._options.json:
            facts = {"topic": self._options.topic, "records": self._sent}
            sys.stdout.write(json.dumps(facts) + "\n")
        else:
            many = counted(self._sent, "record")
            sys.stderr.write(f"{many} produced to {self._options.topic}\n")


def lines_of(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that have arrived, without line ends; the last line may lack its end."""
    rest: list[bytes] = []
    while data := stream.read1(_READ_BYTES):  # type: ignore[attr-defined]  # a buffered reader
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest = []
            yield lines
        if last:
            rest.append(last)
    if rest:
        yield [b"".join(rest)]


_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995


def partition_for(key: bytes, count: int) -> int:
    """Return the partition for a key, of ``count`` partitions (Java: ``BuiltInPartitioner``)."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash 2 of Kafka's clients, without a sign."""
    result = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        result = result * _M & _MASK ^ k
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    result = (result ^ result >> 13) * _M & _MASK
    return result ^ result >> 15
