"""The clients that the generic tests go through, and topics of their own for them."""

import gc
import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.aiokafka_client import Aiokafka
from tests.support.clients.client import Client
from tests.support.clients.confluent import Confluent
from tests.support.clients.kafka_python import KafkaPython
from tests.support.oracle import Broker
from tests.support.waiting import wait_until

type_of = {each.name: each for each in (KafkaPython, Confluent, Aiokafka)}
numbers = itertools.count()

NewTopic = Callable[..., str]


@pytest.fixture(params=sorted(type_of))
def client(request: pytest.FixtureRequest, broker: Broker) -> Client:
    """Each client library in turn."""
    made: Client = type_of[request.param](broker.bootstrap)
    return made


@pytest.fixture
def no_sockets_left() -> Iterator[None]:
    """Take up what a client has left, so that no other test gets it."""
    yield
    gc.collect()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    function = request.node.name.partition("[")[0]
    return f"{function}-{next(numbers)}"


@pytest.fixture
def new_topic(broker: Broker, topic_name: str) -> NewTopic:
    """A function that makes the test's topic and returns its name once it can be used.

    Ours can be used at once; Apache Kafka announces a topic a moment after CreateTopics answers.
    """
    maker = Confluent(broker.bootstrap)

    def make(partitions: int = 1, **configs: str) -> str:
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        maker.create(topic_name, partitions, dotted)
        settle(broker, topic_name, partitions)
        return topic_name

    return make


def settle(broker: Broker, topic: str, partitions: int) -> None:
    """Give Apache Kafka, and only it, the time to announce partitions."""
    looker = Confluent(broker.bootstrap)
    _settle(
        broker,
        lambda: topic in looker.topics() and len(looker.partitions(topic)) == partitions,
        f"{partitions} partitions of {topic}",
    )


def settle_gone(broker: Broker, topic: str) -> None:
    """Give Apache Kafka, and only it, the time to forget a topic."""
    looker = Confluent(broker.bootstrap)
    _settle(broker, lambda: topic not in looker.topics(), f"the end of {topic}")


def settle_setting(broker: Broker, topic: str, name: str, value: str) -> None:
    """Give Apache Kafka, and only it, the time to put a topic's setting into force."""
    looker = Confluent(broker.bootstrap)
    _settle(
        broker, lambda: looker.configs(topic)[name] == value, f"{name} of {topic} to be {value}"
    )


def _settle(broker: Broker, is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so, but not for ours, where it must be so at once."""
    if isinstance(broker, SiltstoneProcess):
        return
    wait_until(is_so, what)
