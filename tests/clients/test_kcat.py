"""kcat, the command line over librdkafka, as people type it."""

import json
from typing import Any

import pytest

from tests.clients.conftest import NewTopic
from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import CODECS, Codec
from tests.support.clients.confluent import Confluent
from tests.support.folders import codecs
from tests.support.kafka import KafkaBroker
from tests.support.messages import START, by_time, sample, stored
from tests.support.missing import require
from tests.support.programs import output_of

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker


def kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    """Run kcat at the broker and return its standard output."""
    return output_of([require("kcat"), "-b", broker.bootstrap, *arguments], input=stdin, timeout=30)


def test_metadata_lists_the_topic(broker: Broker, new_topic: NewTopic) -> None:
    """`kcat -L` shows the one broker and every partition with its leader."""
    topic = new_topic(partitions=2)

    listed: dict[str, Any] = json.loads(kcat(broker, "-L", "-J", "-t", topic))

    node = listed["originating_broker"]["id"]
    assert [each["name"] for each in listed["brokers"]] == [broker.bootstrap]
    (described,) = listed["topics"]
    assert [(each["partition"], each["leader"]) for each in described["partitions"]] == [
        (0, listed["brokers"][0]["id"]),
        (1, listed["brokers"][0]["id"]),
    ]
    assert node in {-1, listed["brokers"][0]["id"]}


@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_back_with_keys_and_headers(
    broker: Broker, new_topic: NewTopic, codec: Codec
) -> None:
    """Lines that `kcat -P` writes with a codec, `kcat -C` reads back one for one."""
    topic = new_topic()
    lines = [f"key-{n}:value {n} {'x' * 50}" for n in range(40)]
    options = ["-z", codec] if codec != "none" else []

    kcat(
        broker, "-P", "-t", topic, "-p", "0", "-K:", "-H", "origin=test", *options,
        stdin="\n".join(lines) + "\n",
    )  # fmt: skip
    read = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:")
    headers = kcat(broker, "-C", "-t", topic, "-p", "0", "-c", "1", "-q", "-f", "%h\n")

    assert read.splitlines() == lines
    assert headers == "origin=test\n"
    assert codecs(broker.folder / f"{topic}-0") == {codec}


@pytest.mark.parametrize("start", [0, 5, 17, -3])
def test_offset_option_starts_exactly_there(
    broker: Broker, new_topic: NewTopic, start: int
) -> None:
    """`-o N` starts at offset N, `-o -N` at the N-th record from the end."""
    topic = new_topic()
    messages = [each._replace(key=b"k", value=b"v", headers=()) for each in sample(20)]
    Confluent(broker.bootstrap).produce(topic, messages)
    first = start if start >= 0 else 20 + start

    read = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", str(start), "-e", "-q", "-f", "%o %T\n")

    expected = [f"{each.offset} {each.message.timestamp}" for each in stored(messages)[first:]]
    assert read.splitlines() == expected


def test_timestamp_option_starts_at_the_first_record_at_or_after(
    broker: Broker, new_topic: NewTopic
) -> None:
    """`-o s@TIME` begins at the record that ListOffsets finds for the time."""
    topic = new_topic()
    messages = [each._replace(key=b"k", value=b"v", headers=()) for each in sample(20)]
    Confluent(broker.bootstrap).produce(topic, messages)
    found = by_time(stored(messages), START + 95_001)
    assert found is not None

    read = kcat(
        broker, "-C", "-t", topic, "-p", "0", "-o", f"s@{START + 95_001}", "-c", "1", "-q",
        "-f", "%o\n",
    )  # fmt: skip

    assert read == f"{found.offset}\n"


def test_query_by_time_answers_the_offset(broker: Broker, new_topic: NewTopic) -> None:
    """`kcat -Q` prints the offset for a timestamp, and -1 without a record."""
    topic = new_topic()
    messages = sample(20)
    Confluent(broker.bootstrap).produce(topic, messages)
    found = by_time(stored(messages), START + 50_000)
    assert found is not None

    asked = kcat(broker, "-Q", "-t", f"{topic}:0:{START + 50_000}")
    later = kcat(broker, "-Q", "-t", f"{topic}:0:{START + 10**9}")

    assert asked == f"{topic} [0] offset {found.offset}\n"
    assert later == f"{topic} [0] offset -1\n"


def test_tombstones_are_null_and_not_empty(broker: Broker, new_topic: NewTopic) -> None:
    """`-Z` sends an empty value as null, and it is null when read (`%S` is -1)."""
    topic = new_topic(cleanup_policy="compact")

    kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-Z", stdin="gone:\nkept:x\n")
    read = kcat(broker, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%k %S\n")

    assert read == "gone -1\nkept 1\n"
