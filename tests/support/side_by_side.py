"""Our broker and Apache Kafka side by side: both run, and what they answer is compared.

`Reading` says what no two brokers have in common. Every other difference is a mistake, or stands in
``docs/compatibility.md``.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import crc32c

from siltstone.protocol.messages import NO_ID
from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker, KafkaJars
from tests.support.rows import plain

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MASKED: Final = frozenset({
    "port", "host", "cluster_id", "error_message", "batch_index_error_message", "log_dir",
    "total_bytes", "usable_bytes", "log_append_time_ms", "throttle_time_ms",
    "transaction_start_time_ms", "last_timestamp",
})  # fmt: skip
"""A broker's own, a sentence, or a time."""
ORDER: Final = (
    "index", "partition_index", "partition", "partition_id", "name", "topic", "topic_name",
    "topic_id", "resource_type", "resource_name", "entity_type", "mechanism", "user", "group_id",
    "transactional_id", "producer_id", "key", "api_key", "member_id",
)  # fmt: skip
"""By these rows are sorted: Kafka takes some out of hash maps."""
_DRAWN: Final = frozenset({"topic_id", "producer_id", "session_id", "member_id"})
_TOPIC: Final = 2
_MISSING: Final = "missing"
_NOTHING: Final = ("", -1, 0, NO_ID)
_CRC: Final = slice(17, 21)
_PRODUCER: Final = slice(43, 51)
_CONTROL: Final = 0x20
_TIMES: Final = 6
"""Behind attributes and last offset."""
_SIZE: Final = struct.Struct(">8xi")
_LAST: Final = struct.Struct(">q15xi")
"""The base offset of a batch, and how far behind it its last record is."""


@contextmanager
def both(
    jars: KafkaJars, root: Path, settings: Mapping[str, str]
) -> Iterator[tuple[SiltstoneProcess, KafkaBroker]]:
    """Run our broker and Kafka's on empty folders; both must start, and are ended."""
    ours, theirs = (
        SiltstoneProcess(root / "ours", settings),
        KafkaBroker(jars, root / "kafka", settings),
    )
    with closing(theirs), closing(ours):
        theirs.start(), ours.start()
        yield ours, theirs


class Reading:
    """Requests and answers of one broker, in the words that all brokers have in common.

    Values that a broker draws become numbers, in the order in which they appear. Fields that are
    ``masked`` are left out, of some it is told ``only_whether`` they have something; so are
    ``defaults`` of settings of brokers and groups, if they are not wanted. If ``known`` ones are
    given, all others are alike.
    """

    def __init__(
        self,
        masked: frozenset[str] = MASKED,
        only_whether: frozenset[str] = frozenset(),
        *,
        defaults: bool = True,
        known: Mapping[tuple[str, Any], str] | None = None,
    ) -> None:
        self._masked = masked
        self._only_whether = only_whether
        self._has_defaults = defaults
        self._numbers: dict[tuple[str, Any], str] = dict(known or {})
        self._is_open = known is None

    def read(self, value: Any, name: str = "") -> Any:
        """Return a message, or a part of it by its name, as plain values."""
        value = plain(value) if hasattr(value, "_asdict") else value
        if name in self._only_whether:
            return bool(value)
        if isinstance(value, dict):
            return self._fields(value)
        if isinstance(value, list | tuple):
            rows = [self.read(each, name) for each in sorted(value, key=_rough_place)]
            return sorted(rows, key=_place)
        if name == "records" and value:
            return [self._batch(each) for each in batches_of(bytes(value))]
        return self._plain(value, name)

    def _fields(self, row: dict[str, Any]) -> dict[str, Any]:
        answers = row.get("responses")
        if answers and "partitions" in answers[0]:
            row |= {"responses": _by_partition(answers)}
        is_short = not self._has_defaults and row.get("resource_type", _TOPIC) != _TOPIC
        if is_short and row.get("configs"):
            row |= {"configs": [each for each in row["configs"] if _is_set(each)]}
        if "aborted_transactions" in row:
            row |= {"aborted_transactions": _aborted_within(row)}
        return {key: self.read(each, key) for key, each in row.items() if key not in self._masked}

    def _plain(self, value: Any, name: str) -> Any:
        if name in _DRAWN and value not in _NOTHING and not _is_chosen(value):
            return self._number(name, value)
        if isinstance(value, memoryview | bytes | bytearray):
            value = bytes(value).decode("latin-1")
        if isinstance(value, str):
            return _UUID.sub(lambda found: self._number("member_id", found[0]), value)
        return value

    def _number(self, kind: str, value: Any) -> str:
        if isinstance(value, str) and (found := _UUID.search(value)):
            value = found[0]
        if not self._is_open:
            return self._numbers.get((kind, value), f"another {kind}")
        at = sum(known == kind for known, _ in self._numbers)
        return self._numbers.setdefault((kind, value), f"{kind} {at}")

    def _batch(self, batch: bytes) -> list[Any]:
        assert crc32c.crc32c(batch[_CRC.stop :]) == int.from_bytes(batch[_CRC], "big")
        producer_id = int.from_bytes(batch[_PRODUCER], "big", signed=True)
        producer = self._number("producer_id", producer_id) if producer_id >= 0 else ""
        between = batch[_CRC.stop : _PRODUCER.start]
        if between[1] & _CONTROL:  # the broker's own, of its own time
            between = between[:_TIMES]
        return [batch[: _CRC.start], between, producer, batch[_PRODUCER.stop :]]


def _by_partition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a Fetch with one partition each: the order of others is a broker's own."""
    return [{**row, "partitions": [each]} for row in rows for each in row["partitions"]]


def _aborted_within(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the aborted transactions that begin before the end of what a Fetch answers."""
    if row["error_code"] or row["aborted_transactions"] is None:
        return None
    batches = [*batches_of(bytes(row["records"] or b""))]
    end = sum(_LAST.unpack_from(batches[-1])) if batches else -1
    return [each for each in row["aborted_transactions"] if each["first_offset"] <= end]


def _is_set(setting: dict[str, Any]) -> bool:
    return setting.get("config_source") not in {4, 5}


def _is_chosen(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def _place(row: Any, left_out: frozenset[str] = frozenset()) -> str:
    if not isinstance(row, dict):
        return f"{row:>9}" if isinstance(row, int) else repr(row)
    names = [name for name in ORDER if name in row and name not in left_out]
    first = repr([f"{row[name]!s:>9}" for name in names])
    return first if left_out else f"{first} {row!r}"


def _rough_place(row: Any) -> str:
    return _place(row, _DRAWN) if isinstance(row, dict) else ""


def batches_of(records: bytes) -> Iterator[bytes]:
    """Cut the bytes of a partition into its whole batches."""
    at = 0
    while at + 61 <= len(records):
        end = at + 12 + _SIZE.unpack_from(records, at)[0]
        if end > len(records):
            return
        yield records[at:end]
        at = end


def compare(
    mine: Any, other: Any, where: str = "", either: AbstractSet[tuple[int, int]] = frozenset()
) -> Iterator[str]:
    """Say in which fields two answers differ.

    A row whose error codes are a pair of ``either``, ours first, is not compared further.
    """
    if isinstance(mine, dict) and isinstance(other, dict):
        if (mine.get("error_code"), other.get("error_code")) in either:
            return
        for name in mine | other:
            one, two = mine.get(name, _MISSING), other.get(name, _MISSING)
            yield from compare(one, two, f"{where}.{name}", either)
    elif isinstance(mine, list) and isinstance(other, list):
        if len(mine) == len(other):
            for one, two in zip(mine, other, strict=True):
                yield from compare(one, two, f"{where}[]", either)
        else:
            yield from (f"{where}[]: {each!r:.200} is ours" for each in _without(mine, other))
            yield from (f"{where}[]: {each!r:.200} is Kafka's" for each in _without(other, mine))
    elif mine != other:
        yield f"{where}: {mine!r:.200} is {other!r:.200} in Kafka"


def _without(rows: list[Any], others: list[Any]) -> list[Any]:
    """Return the rows that others lack, as often as they lack them."""
    left = list(others)
    lacking = []
    for each in rows:
        if each in left:
            left.remove(each)
        else:
            lacking.append(each)
    return lacking


def codes_of(value: Any) -> list[int]:
    """Return all error codes of an answer that was read."""
    if isinstance(value, list):
        return [code for each in value for code in codes_of(each)]
    if not isinstance(value, dict):
        return []
    own = [value["error_code"]] if "error_code" in value else []
    return own + [code for each in value.values() for code in codes_of(each)]
