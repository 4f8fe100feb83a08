"""Topics, their partitions and their settings through each client library."""

import pytest

from tests.clients.conftest import NewTopic, settle, settle_gone, settle_setting
from tests.support.clients.client import Client
from tests.support.messages import sample, stored
from tests.support.oracle import Broker

pytestmark = pytest.mark.client


def test_created_topic_is_listed_with_all_partitions(
    broker: Broker, client: Client, topic_name: str
) -> None:
    """A topic is in Metadata with a leader for each partition once CreateTopics has answered."""
    client.create(topic_name, 3, {})
    settle(broker, topic_name, 3)

    assert topic_name in client.topics()
    assert client.partitions(topic_name) == [0, 1, 2]
    assert client.bounds(topic_name) == (0, 0)


def test_created_topic_keeps_its_settings(broker: Broker, client: Client, topic_name: str) -> None:
    """Settings given to CreateTopics are what DescribeConfigs shows."""
    client.create(topic_name, 1, {"retention.ms": "123456789", "cleanup.policy": "compact"})
    settle(broker, topic_name, 1)

    configs = client.configs(topic_name)

    assert configs["retention.ms"] == "123456789"
    assert configs["cleanup.policy"] == "compact"
    assert configs["max.message.bytes"] == "1048588"
    assert configs["compression.type"] == "producer"
    assert configs["message.timestamp.type"] == "CreateTime"


def test_second_creation_is_refused(client: Client, new_topic: NewTopic) -> None:
    """A topic that exists is not made again, and keeps its partitions."""
    topic = new_topic(partitions=2)

    with pytest.raises(Exception, match=r"(?i)exist"):
        client.create(topic, 5, {})

    assert client.partitions(topic) == [0, 1]


@pytest.mark.parametrize("name", ["..", "with space", "a" * 250])
def test_impossible_names_are_refused(client: Client, name: str) -> None:
    """A name that cannot be a folder or breaks Kafka's rule is never a topic."""
    with pytest.raises(Exception, match=r"(?i)invalid|TopicExc|17|_INVALID_ARG"):
        client.create(name, 1, {})

    assert name not in client.topics()


def test_partitions_are_added_and_old_ones_keep_their_records(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """CreatePartitions grows a topic; partition 0 still holds what it held."""
    topic = new_topic()
    messages = sample(8)
    client.produce(topic, messages)

    client.add_partitions(topic, 4)
    settle(broker, topic, 4)

    assert client.partitions(topic) == [0, 1, 2, 3]
    assert client.read(topic, 0, 8) == stored(messages)


def test_partitions_are_never_taken_away(client: Client, new_topic: NewTopic) -> None:
    """CreatePartitions with fewer partitions than there are is refused."""
    topic = new_topic(partitions=3)

    with pytest.raises(Exception, match=r"(?i)partitions|37"):
        client.add_partitions(topic, 2)

    assert client.partitions(topic) == [0, 1, 2]


def test_deleted_topic_is_gone_and_its_name_is_free(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """A deleted topic is in no list, its folder is no longer its own, and a new one is empty."""
    topic = new_topic()
    client.produce(topic, sample(4))

    client.delete(topic)
    settle_gone(broker, topic)

    assert topic not in client.topics()
    assert not (broker.folder / f"{topic}-0").exists()

    client.create(topic, 1, {})
    settle(broker, topic, 1)

    assert client.bounds(topic) == (0, 0)


def test_altered_setting_is_described_and_obeyed(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """A changed max.message.bytes is described at once and refuses a larger record."""
    topic = new_topic()

    client.alter(topic, {"max.message.bytes": "1000"})
    settle_setting(broker, topic, "max.message.bytes", "1000")

    assert client.configs(topic)["max.message.bytes"] == "1000"
    large = sample(1)[0]._replace(value=b"x" * 1500, headers=())
    with pytest.raises(Exception, match=r"(?i)size|large"):
        client.produce(topic, [large])
    assert client.bounds(topic) == (0, 0)


def test_unknown_setting_and_bad_value_are_refused(client: Client, new_topic: NewTopic) -> None:
    """A faulty change is refused as a whole and the topic keeps its settings."""
    topic = new_topic(retention_ms="1000000")

    for faulty in ({"retention.mss": "5"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}):
        with pytest.raises(Exception, match=r"(?i)config|unknown|invalid|40"):
            client.alter(topic, faulty)

    assert client.configs(topic)["retention.ms"] == "1000000"
    assert client.configs(topic)["cleanup.policy"] == "delete"


def test_deleted_records_are_gone_and_the_rest_stays(client: Client, new_topic: NewTopic) -> None:
    """DeleteRecords moves the first offset, in the middle of a batch as well."""
    topic = new_topic()
    messages = sample(30)
    client.produce(topic, messages)

    assert client.delete_records(topic, 17) == 17
    assert client.bounds(topic) == (17, 30)
    assert client.read(topic, 17, 13) == stored(messages)[17:]
    with pytest.raises(Exception, match=r"(?i)range|out"):
        client.read(topic, 16, 1)


def test_records_of_a_topic_that_keeps_everything_are_deleted(
    client: Client, new_topic: NewTopic
) -> None:
    """An empty cleanup.policy ends what retention does, and not what DeleteRecords does."""
    topic = new_topic(cleanup_policy="")
    client.produce(topic, sample(5))

    assert client.delete_records(topic, 4) == 4
    assert client.bounds(topic) == (4, 5)


def test_a_policy_that_is_named_twice_counts_once(
    broker: Broker, client: Client, new_topic: NewTopic
) -> None:
    """At the creation and when it is altered; the description names it once."""
    topic = new_topic(cleanup_policy="compact,compact")
    settle_setting(broker, topic, "cleanup.policy", "compact")
    client.alter(topic, {"cleanup.policy": "delete,compact,delete"})
    settle_setting(broker, topic, "cleanup.policy", "delete,compact")
