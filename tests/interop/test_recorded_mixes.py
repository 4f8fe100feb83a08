"""Recorded applications are answered as Apache Kafka answers them, byte for byte.

Each recording of ``bench/clients/recordings`` is played once on our broker and once on Kafka's,
both empty at first. An answer is read by kio and written again, which must give its bytes; so what
is compared field by field is all that was sent. ``Reading`` says what may differ and why; every
other difference is either mended or listed in ``docs/compatibility.md``.
"""

import dataclasses
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

import crc32c
import pytest

from bench.clients import messages
from bench.clients.mixes import RECORDINGS
from bench.clients.recording import read
from bench.connection import answer_frame
from siltstone.broker.api import BY_KEY
from siltstone.broker.topics.features import SUPPORTED
from tests.support.kafka import KafkaJars
from tests.support.ports import address_of
from tests.support.recorded_play import Answered, Play
from tests.support.side_by_side import batches_of, both, compare

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

# The console asks for all topics and groups, so it comes before those whose members go by time.
NAMES: Final = sorted(
    (path.name.removesuffix(".jsonl.xz") for path in RECORDINGS.glob("*.jsonl.xz")),
    key=lambda name: (name != "console", name),
)
SETTINGS: Final = {
    "node.id": "1",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN: Final = frozenset({"port", "cluster_id"})
_DRAWN: Final = frozenset({"session_id", "producer_id"})
_NOTHING: Final = frozenset({-1, 0})
_SERVED: Final = {"api_keys": "api_key", "supported_features": "name", "finalized_features": "name"}
_BY_HASH: Final = {
    messages.PRODUCE: {"responses": "topic_id", "partition_responses": "index"},
    messages.LIST_OFFSETS: {"topics": "name", "partitions": "partition_index"},
    messages.METADATA: {"topics": "name"},
    messages.OFFSET_FETCH: {"topics": "name", "partitions": "partition_index"},
    messages.API_VERSIONS: {"supported_features": "name", "finalized_features": "name"},
    messages.DESCRIBE_CONFIGS: {"configs": "name"},
}
_CRC: Final = slice(17, 21)
_PRODUCER: Final = slice(43, 51)


class Reading:
    """The answers of one play, without what no two brokers have in common.

    * Its port and the id of its cluster are a broker's own.
    * Ids that are drawn (topics, members, fetch sessions, producers) become names, or numbers in
      the order in which they appear, in batches of a Fetch too, whose CRC is checked before.
    * Kafka takes some rows out of hash maps, so they are sorted; what the rows are is compared.
    * ApiVersions: Kafka's row or feature that this broker does not serve; the count of changes.
    """

    def __init__(self, play: Play, served: frozenset[Any] | None = None) -> None:
        self._topics = {topic_id: name for name, topic_id in play.ids.items()}
        self._numbers: dict[tuple[str, Any], int] = {}
        self._served = served

    def read(self, answered: Answered) -> Any:
        """Return an answer as plain values."""
        key = type(answered.request).__api_key__
        return self._value(answered.answer, "", _BY_HASH.get(key, {}))

    def _value(self, value: Any, name: str, by_hash: Mapping[str, str]) -> Any:
        if isinstance(value, tuple):
            return self._rows(value, name, by_hash)
        if dataclasses.is_dataclass(value):
            return {
                each.name: self._value(getattr(value, each.name), each.name, by_hash)
                for each in dataclasses.fields(value)
                if each.name != "finalized_features_epoch"
            }
        return self._plain(value, name)

    def _rows(self, value: Iterable[Any], name: str, by_hash: Mapping[str, str]) -> list[Any]:
        rows = [self._value(each, name, by_hash) for each in value]
        if name in _SERVED and self._served:
            rows = [row for row in rows if row[_SERVED[name]] in self._served]
        if name in by_hash:  # an old Produce has names in place of ids
            rows.sort(key=lambda row: row.get(by_hash[name], row.get("name")))
        return rows

    def _plain(self, value: Any, name: str) -> Any:
        if name in _OWN:
            return type(value).__name__
        if isinstance(value, UUID):
            return self._topics.get(value) or self._number("uuid", value)
        if name in _DRAWN and value not in _NOTHING:
            return self._number(name, value)
        if name == "records" and value:
            return [self._batch(each) for each in batches_of(value)]
        if isinstance(value, str):
            return _UUID.sub(lambda found: self._number("uuid", found[0]), value)
        return value

    def _number(self, kind: str, value: Any) -> str:
        return f"{kind} {self._numbers.setdefault((kind, value), len(self._numbers))}"

    def _batch(self, batch: bytes) -> tuple[bytes, bytes, str, bytes]:
        assert crc32c.crc32c(batch[_CRC.stop :]) == int.from_bytes(batch[_CRC], "big")
        producer_id = int.from_bytes(batch[_PRODUCER], "big", signed=True)
        producer = self._number("producer_id", producer_id) if producer_id >= 0 else ""
        between = batch[_CRC.stop : _PRODUCER.start]
        return batch[: _CRC.start], between, producer, batch[_PRODUCER.stop :]


@dataclasses.dataclass(frozen=True)
class Played:
    """The answers to an application."""

    play: Play
    answers: list[Answered]


@pytest.fixture(scope="module")
def played(
    kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Played, Played]]:
    """Every recording, played on ours and on Kafka, with batches of the same times."""
    root = tmp_path_factory.mktemp("recorded")
    now_ms = int(time.time() * 1000)
    with both(kafka_jars, root, SETTINGS) as brokers:
        ours, theirs = (play_all(address_of(each.bootstrap)[1], now_ms) for each in brokers)
    return {name: (ours[name], theirs[name]) for name in NAMES}


def play_all(port: int, now_ms: int) -> dict[str, Played]:
    """Play every recording on one broker."""
    found = {}
    for name in NAMES:
        play = Play(read(RECORDINGS / f"{name}.jsonl.xz"), port, now_ms)
        found[name] = Played(play, list(play.answers()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_application_is_answered_as_kafka_does(
    played: dict[str, tuple[Played, Played]], name: str
) -> None:
    """Every request from the first ApiVersions on, but for what ``Reading`` says."""
    ours, theirs = played[name]
    mine = Reading(ours.play)
    other = Reading(theirs.play, served_by_us())
    assert len(ours.answers) == len(theirs.answers) > 40

    differences = []
    for number, (one, two) in enumerate(zip(ours.answers, theirs.answers, strict=True)):
        kind = type(one.request)
        assert answer_frame(one.answer)[8:] == one.body
        assert answer_frame(two.answer)[8:] == two.body
        what = f"{number}: {BY_KEY[kind.__api_key__].name} v{kind.__version__}"
        differences += [f"{what} {each}" for each in compare(mine.read(one), other.read(two))]

    assert differences == []


def served_by_us() -> frozenset[Any]:
    """Return the APIs and features that ApiVersions names here."""
    return frozenset({*BY_KEY, *SUPPORTED})
