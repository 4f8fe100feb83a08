"""The table against what Apache Kafka 4.4.0 has."""

from siltstone.config.checks import ADVERTISED
from siltstone.config.keys import Kind
from siltstone.config.known import known_settings
from siltstone.config.sources import variables
from siltstone.config.table import BROKER, SYNONYMS, TOPIC, topic_value
from siltstone.config.topic import TopicConfig
from siltstone.config.values import text_of

OUR_OWN_DEFAULTS = {
    "sasl.enabled.mechanisms",  # not GSSAPI, which is not served
    "broker.id",  # the id is 1 where Kafka wants one given
    "controller.listener.names",  # Kafka wants it given
    "listener.security.protocol.map",  # the same map in another order
    "listeners",  # loopback until told otherwise
    "log.dir",  # under the working directory
    "log.dirs",  # likewise
    "node.id",
    "ssl.keystore.type",  # PEM: no other type is read
    "ssl.truststore.type",  # likewise
    "socket.receive.buffer.bytes",  # left to the system, which is faster (docs/performance.md)
}


def test_topic_defaults_are_kafkas() -> None:
    """Every topic setting that is obeyed is one of Kafka's, with its type and default."""
    known = known_settings("topic")

    for name, setting in TOPIC.items():
        assert setting.kind is known[name].kind, name
        assert text_of(setting.kind, setting.default) == known[name].default, name


def test_broker_defaults_are_kafkas_but_for_a_few() -> None:
    """Every broker setting is Kafka's with its type and default, ours, or on a short list."""
    known = known_settings("broker")

    for name, setting in BROKER.items():
        if setting.ours:
            assert name not in known
        elif name not in OUR_OWN_DEFAULTS:
            assert setting.kind is known[name].kind, name
            assert text_of(setting.kind, setting.default) == known[name].default, name


def test_nothing_is_altered_live_that_kafka_does_not_alter() -> None:
    """A setting of Kafka's is alterable only if Kafka's is, but for one that mapped ports need."""
    known = known_settings("broker")

    for name, setting in BROKER.items():
        if setting.dynamic and not setting.ours and name != ADVERTISED:
            assert known[name].alterable in {"cluster", "broker"}, name


def test_every_topic_setting_has_a_broker_synonym() -> None:
    """Each topic setting gets its default from the broker, the first name can be altered live.

    Kafka has no setting of the broker for one of them.
    """
    assert [name for name, each in TOPIC.items() if not each.synonyms] == [
        "errors.deadletterqueue.group.enable"
    ]
    for setting in TOPIC.values():
        if not setting.synonyms:
            continue
        assert BROKER[setting.synonyms[0]].dynamic


def test_only_the_last_synonym_has_the_default() -> None:
    """log.retention.hours is 168 and log.retention.ms is not set, as in Kafka."""
    assert SYNONYMS["log.retention.hours"].default == 168
    assert SYNONYMS["log.retention.hours"].kind is Kind.INT
    assert SYNONYMS["log.retention.minutes"].default is None
    assert SYNONYMS["log.retention.ms"].default is None
    assert SYNONYMS["log.roll.jitter.hours"].default == 0


def test_durations_are_converted_and_negative_ones_mean_none() -> None:
    """Hours and minutes become milliseconds; any negative duration is no limit."""
    assert topic_value("log.retention.hours", 2) == 7_200_000
    assert topic_value("log.retention.minutes", 3) == 180_000
    assert topic_value("log.retention.hours", -5) == -1
    assert topic_value("log.retention.bytes", -5) == -5


def test_each_setting_has_a_variable_of_its_own() -> None:
    """No two settings, obeyed or kept, share an environment variable."""
    names = set(BROKER) | set(known_settings("broker"))

    assert set(variables().values()) == names


def test_every_setting_is_documented() -> None:
    """Each setting says in a sentence what it does."""
    for setting in (*TOPIC.values(), *BROKER.values()):
        assert setting.documentation.endswith("."), setting.name


def test_policy_and_clock_are_asked_by_name() -> None:
    """The questions that hot paths ask have properties."""
    both = TopicConfig(cleanup_policy=("compact", "delete"), message_timestamp_type="LogAppendTime")

    assert both.is_compacted
    assert both.is_deleted
    assert both.is_log_append_time
    assert not TopicConfig().is_compacted
    assert TopicConfig().is_deleted
    assert not TopicConfig().is_log_append_time
