"""Records in and out through each client library, compared field by field."""

import pytest

from tests.clients.conftest import NewTopic, type_of
from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import CODECS, Client, Codec
from tests.support.clients.confluent import Confluent
from tests.support.folders import batches, codecs
from tests.support.kafka import KafkaBroker
from tests.support.messages import START, by_time, sample, stored
from tests.support.waiting import equals, wait_until

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker

DELIVERIES = {
    "idempotent": {"acks": -1, "idempotent": True},
    "acks-all": {"acks": -1, "idempotent": False},
    "acks-1": {"acks": 1, "idempotent": False},
    "acks-0": {"acks": 0, "idempotent": False},
}


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, client: Client, new_topic: NewTopic, codec: Codec, delivery: str
) -> None:
    """Keys, values, headers, timestamps, order and codec survive; offsets are dense from 0."""
    topic = new_topic()
    messages = sample()
    how = DELIVERIES[delivery]

    offsets = client.produce(
        topic, messages, codec=codec, acks=how["acks"], idempotent=bool(how["idempotent"])
    )
    if not how["acks"]:
        _await_end(client, topic, len(messages))

    assert offsets == (list(range(len(messages))) if how["acks"] else [])
    assert client.read(topic, 0, len(messages)) == stored(messages)
    written = batches(broker.folder / f"{topic}-0")
    assert len(written) > 2
    assert codecs(broker.folder / f"{topic}-0") == {codec}
    assert {batch.producer_id >= 0 for batch in written} == {how["idempotent"]}
    assert sum(batch.records for batch in written) == len(messages)


@pytest.mark.parametrize("reader", sorted(type_of))
@pytest.mark.parametrize("codec", CODECS)
def test_each_client_reads_what_another_wrote(
    broker: Broker, client: Client, new_topic: NewTopic, codec: Codec, reader: str
) -> None:
    """Records that one library writes, every other reads to the same records."""
    topic = new_topic()
    messages = sample(20)
    client.produce(topic, messages, codec=codec)

    assert type_of[reader](broker.bootstrap).read(topic, 0, 20) == stored(messages)


def test_null_headers_and_empty_records_survive(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """A null header value and a record of nothing but nulls reach every client as such."""
    topic = new_topic()
    nothing = sample(1)[0]._replace(key=None, value=None, headers=())
    messages = [nothing, nothing._replace(headers=(("null", None), ("empty", b"")))]
    Confluent(broker.bootstrap).produce(topic, messages)

    assert client.read(topic, 0, 2) == stored(messages)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_every_offset_can_be_read_from(client: Client, new_topic: NewTopic, codec: Codec) -> None:
    """A read from the first, a middle or the last record of a batch begins exactly there."""
    topic = new_topic()
    messages = sample()
    client.produce(topic, messages, codec=codec)

    for start in range(0, len(messages), 7):
        count = min(15, len(messages) - start)
        assert client.read(topic, start, count) == stored(messages)[start : start + count]


def test_reading_beyond_the_end_is_out_of_range(client: Client, new_topic: NewTopic) -> None:
    """An offset past the end is an error of its own, not an empty answer."""
    topic = new_topic()
    client.produce(topic, sample(4))

    with pytest.raises(Exception, match=r"(?i)range|out"):
        client.read(topic, 5, 1)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_timestamps_find_the_first_record_at_or_after(
    client: Client, new_topic: NewTopic, codec: Codec
) -> None:
    """ListOffsets by time is exact to the record, also where timestamps step back."""
    topic = new_topic()
    messages = sample()
    client.produce(topic, messages, codec=codec)
    log = stored(messages)

    for after in (-5, 0, 1, 95_000, 110_000, 285_001, 590_000):
        found = by_time(log, START + after)
        expected = [] if found is None else [found]
        assert client.read_from_time(topic, START + after, 1) == expected
    assert client.read_from_time(topic, START + 10_000_000, 1) == []


def test_two_producers_interleave_without_loss(client: Client, new_topic: NewTopic) -> None:
    """A second idempotent producer's records follow the first one's."""
    topic = new_topic()
    first = sample(25)
    second = [each._replace(value=b"second") for each in first]

    client.produce(topic, first, codec="gzip", idempotent=True)
    offsets = client.produce(topic, second, codec="zstd", idempotent=True)

    assert offsets == list(range(25, 50))
    assert client.read(topic, 0, 50) == stored(first) + stored(second, 25)


def test_broker_stamps_where_the_topic_says_log_append_time(
    client: Client, new_topic: NewTopic
) -> None:
    """With message.timestamp.type=LogAppendTime the producer's timestamps are replaced."""
    topic = new_topic(message_timestamp_type="LogAppendTime")
    messages = sample(6)
    client.produce(topic, messages)

    read = client.read(topic, 0, 6)

    assert [each.message.value for each in read] == [each.value for each in messages]
    assert min(each.message.timestamp for each in read) >= START + 3_000_000


def test_topic_codec_wins_over_the_producers(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """A topic that names a codec stores that codec, whatever arrives."""
    topic = new_topic(compression_type="zstd")
    messages = sample(12)
    client.produce(topic, messages, codec="gzip")

    assert codecs(broker.folder / f"{topic}-0") == {"zstd"}
    assert client.read(topic, 0, 12) == stored(messages)


def test_null_key_is_refused_on_a_compacted_topic(client: Client, new_topic: NewTopic) -> None:
    """A record without a key cannot be compacted: it is refused and nothing is stored."""
    topic = new_topic(cleanup_policy="compact")
    keyless = sample(1)[0]._replace(key=None, headers=())

    with pytest.raises(Exception, match=r"(?i)invalid.?record|validat|key"):
        client.produce(topic, [keyless])

    assert client.bounds(topic) == (0, 0)


def _await_end(client: Client, topic: str, end: int) -> None:
    wait_until(lambda: client.bounds(topic)[1], f"end offset {end} of {topic}", equals(end))
