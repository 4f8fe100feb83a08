"""Layers: what counts, and what may be changed while the broker runs."""

import pytest

from siltstone.config.errors import ConfigError, NotAlterableError
from siltstone.config.layers import Given, Layers
from siltstone.config.load import load
from siltstone.config.server import ServerConfig
from siltstone.config.table import SERVER
from siltstone.config.topic import TopicConfig


def static(**values: str) -> Layers:
    """Return layers of static values, dots of their names as underscores."""
    return Layers(
        static={name.replace("_", "."): Given(text, "--set") for name, text in values.items()}
    )


def test_empty_layers_are_the_defaults() -> None:
    """Without a value the dataclasses' own defaults hold."""
    assert Layers().server() == ServerConfig()
    assert Layers().topic() == TopicConfig()


def test_topic_over_dynamic_over_static() -> None:
    """A topic's value wins over this broker's, over all brokers', over the static one."""
    layers = static(log_retention_bytes="1")
    cluster = layers.with_dynamic(cluster={"log.retention.bytes": "2"})
    broker = cluster.with_dynamic(broker={"log.retention.bytes": "3"})

    assert layers.topic().retention_bytes == 1
    assert cluster.topic().retention_bytes == 2
    assert broker.topic().retention_bytes == 3
    assert broker.topic({"retention.bytes": "4"}).retention_bytes == 4
    assert broker.where("log.retention.bytes") == "dynamic for this broker"
    assert cluster.where("log.retention.bytes") == "dynamic for all brokers"
    assert layers.topic().retention_bytes == 1


def test_dynamic_values_can_be_taken_back() -> None:
    """An empty mapping clears a layer, None keeps it."""
    layers = Layers().with_dynamic(cluster={"max.connections": "5"}, broker={})

    assert layers.with_dynamic(broker={}).server().max_connections == 5
    assert layers.with_dynamic(cluster={}).server().max_connections == (1 << 31) - 1


@pytest.mark.parametrize(
    ("values", "retention_ms"),
    [
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_minutes": "2", "log_retention_hours": "9"}, 120_000),
        ({"log_retention_ms": "2", "log_retention_minutes": "9"}, 2),
        ({"log_retention_ms": "-7"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_retention_in_three_units(values: dict[str, str], retention_ms: int) -> None:
    """Milliseconds win over minutes over hours; a negative one is no limit."""
    assert static(**values).topic().retention_ms == retention_ms


def test_other_synonyms_with_units() -> None:
    """Rolling and jitter have hours as well; flush.ms falls back to the scheduler's interval."""
    hours = static(log_roll_hours="1", log_roll_jitter_hours="1").topic()

    assert hours.segment_ms == 3_600_000
    assert hours.segment_jitter_ms == 3_600_000
    assert static(log_flush_scheduler_interval_ms="50").topic().flush_ms == 50
    assert static(message_max_bytes="9").topic().max_message_bytes == 9


def test_a_topic_that_sets_nothing_shares_the_defaults() -> None:
    """Thousands of topics without settings are one value."""
    layers = static(log_segment_bytes="2000000")

    assert layers.topic({}) is layers.topic()
    assert layers.server().topic_defaults is layers.topic()


def test_stored_names_that_are_not_obeyed_do_not_stop_a_start() -> None:
    """A topic's effective settings pass over what they do not know, but not over bad values."""
    assert Layers().topic({"remote.copy.lag.ms": "1", "retention.ms": "5"}).retention_ms == 5
    with pytest.raises(ConfigError, match=r"^retention.ms is soon; it must be a whole number"):
        Layers().topic({"retention.ms": "soon"})


def test_internal_segment_bytes_wins_over_segment_bytes() -> None:
    """Kafka's tests make small segments with it, since segment.bytes is 1 MiB at least there."""
    own = {"internal.segment.bytes": "2000", "segment.bytes": "3000000"}

    assert Layers().topic(own).segment_bytes == 2000
    assert Layers().check_topic(own) == ()
    with pytest.raises(ConfigError, match=r"^internal.segment.bytes is 1; it must be at least 14"):
        Layers().check_topic({"internal.segment.bytes": "1"})


def test_faulty_layers_are_not_made() -> None:
    """Layers with a value that does not parse raise every fault with its place."""
    with pytest.raises(ConfigError) as caught:
        static(num_partitions="0", log_retention_ms="x")

    assert len(caught.value.faults) == 2
    assert all(fault.startswith("--set: ") for fault in caught.value.faults)


def test_checking_a_topic_names_every_fault() -> None:
    """CreateTopics and AlterConfigs can tell all that is wrong with a topic's settings."""
    overrides = {
        "cleanup.policy": "compress",
        "segment.byte": "1",
        "log.retention.ms": "1",
        "remote.storage.enable": "true",
        "min.cleanable.dirty.ratio": "1.5",
        "local.retention.ms": "x",
    }

    with pytest.raises(ConfigError) as caught:
        Layers().check_topic(overrides)

    assert caught.value.faults == (
        "cleanup.policy is compress; it must be a list of compact, delete",
        "segment.byte is not a topic setting; did you mean segment.bytes?",
        "log.retention.ms is not a topic setting; for one topic it is called retention.ms",
        "remote.storage.enable is true, but there is no tiered storage here; remove it",
        "min.cleanable.dirty.ratio is 1.5; it must be from 0 to 1",
        (
            "local.retention.ms is x; it must be a whole number from -9223372036854775808 to "
            "9223372036854775807"
        ),
    )


def test_checking_a_topic_warns() -> None:
    """Small segments and settings without meaning are taken, and told."""
    warnings = Layers().check_topic({"segment.bytes": "1000", "message.format.version": "3.0"})

    assert warnings == (
        "segment.bytes is 1000; Apache Kafka wants at least 1048576",
        (
            "message.format.version was a setting of Apache Kafka before 4.0; it is kept but has "
            "no meaning here"
        ),
    )


def test_lags_are_compared_with_the_defaults() -> None:
    """A topic's least lag may not exceed the most, even if that is the broker's."""
    layers = static(log_cleaner_max_compaction_lag_ms="10")

    with pytest.raises(ConfigError, match="the first must not be larger"):
        layers.check_topic({"min.compaction.lag.ms": "11"})
    assert layers.check_topic({"min.compaction.lag.ms": "10"}) == ()


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    """Kafka 4.x takes an empty list: neither deletion nor compaction."""
    assert Layers().check_topic({"cleanup.policy": ""}) == ()
    assert Layers().topic({"cleanup.policy": ""}).cleanup_policy == ()


@pytest.mark.parametrize(
    "name",
    ["num.partitions", "log.retention.hours", "listeners", "log.cleaner.enable", "process.roles"],
)
def test_some_settings_need_a_restart(name: str) -> None:
    """A setting that Kafka, or we, cannot alter while it runs is refused as such."""
    with pytest.raises(NotAlterableError, match=f"{name} cannot be altered while the broker runs"):
        Layers().check_dynamic({name: "1"})


def test_dynamic_values_are_checked_together() -> None:
    """Unknown names, bad values and contradictions are all named."""
    with pytest.raises(ConfigError) as caught:
        Layers().check_dynamic({"log.retention.mss": "1", "max.connections": "-1"})
    assert caught.value.faults == (
        "log.retention.mss is not a setting; did you mean log.retention.ms?",
        "max.connections is -1; it must be at least 1",
    )
    with pytest.raises(ConfigError, match="the first must not be larger"):
        Layers().check_dynamic(
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}
        )


def test_dynamic_settings_without_meaning_are_kept() -> None:
    """A setting that Kafka alters while it runs is taken, with a warning."""
    (warning,) = Layers().check_dynamic({"background.threads": "5"}, cluster=True)

    assert "no meaning here" in warning


def test_settings_of_a_listener_are_for_one_broker() -> None:
    """TLS settings are altered with a listener's prefix, and not for all brokers at once."""
    name = "listener.name.lan.ssl.endpoint.identification.algorithm"

    assert Layers().check_dynamic({name: ""})
    with pytest.raises(NotAlterableError, match="only be altered for one broker"):
        Layers().check_dynamic({name: ""}, cluster=True)
    with pytest.raises(NotAlterableError, match="only be altered for a listener"):
        Layers().check_dynamic({"ssl.endpoint.identification.algorithm": ""})
    password = {"listener.name.lan.ssl.key.password": "hush"}
    (warning,) = Layers().check_dynamic(password)
    assert warning == f"{next(iter(password))} has no effect: no listener of that name encrypts"
    with pytest.raises(NotAlterableError, match="only be altered for one broker"):
        Layers().check_dynamic(password, cluster=True)
    assert Layers().check_dynamic({"listener.name.lan.ssl.principal.mapping.rules": "DEFAULT"})
    with pytest.raises(NotAlterableError, match="cannot be altered while the broker runs"):
        Layers().check_dynamic({"listener.name.lan.plain.sasl.jaas.config": "x"})


@pytest.mark.parametrize("mechanism", ["plain", "oauthbearer"])
def test_no_refusal_quotes_how_clients_log_in(mechanism: str) -> None:
    """A module that is malformed has its passwords in it, and is not altered anyway."""
    name = f"listener.name.lan.{mechanism}.sasl.jaas.config"

    with pytest.raises(NotAlterableError) as caught:
        Layers().check_dynamic({name: 'PlainLoginModule required user_ada="hush"'})
    assert caught.value.faults == (
        f"{name} cannot be altered while the broker runs; restart it with it",
    )


def test_settings_of_kerberos_are_taken_while_the_broker_runs() -> None:
    """As by Kafka; at a start they promise a login that does not exist, and stop it."""
    (warning,) = Layers().check_dynamic({"sasl.kerberos.min.time.before.relogin": "58000"})

    assert "no meaning here" in warning
    with pytest.raises(ConfigError, match="promises a login"):
        load(None, {}, ["sasl.kerberos.min.time.before.relogin=58000"])
    with pytest.raises(ConfigError, match=r"min\.time\.before\.relogin is soon"):
        Layers().check_dynamic({"sasl.kerberos.min.time.before.relogin": "soon"})


@pytest.mark.parametrize(
    ("threads", "fits"), [("2", True), ("8", True), ("1", False), ("9", False)]
)
def test_cleaner_threads_are_halved_or_doubled(threads: str, fits: bool) -> None:
    """A running cleaner changes its threads by a factor of two at most."""
    layers = static(log_cleaner_threads="4")

    if fits:
        assert layers.check_dynamic({"log.cleaner.threads": threads}, cluster=True) == ()
    else:
        with pytest.raises(ConfigError, match="at most be halved or doubled"):
            layers.check_dynamic({"log.cleaner.threads": threads}, cluster=True)


def test_what_kafka_alters_for_one_broker_only() -> None:
    """The throttle of moves is a setting of each broker, not of all."""
    name = "replica.alter.log.dirs.io.max.bytes.per.second"

    assert Layers().check_dynamic({name: "5"}) == ()
    with pytest.raises(NotAlterableError, match="for one broker"):
        Layers().check_dynamic({name: "5"}, cluster=True)


def test_settings_of_ours_are_altered_too() -> None:
    """Kafka has nothing to say of them: for one broker, or for all."""
    for cluster in (False, True):
        assert Layers().check_dynamic({"log.dirs.reserve.bytes": "5"}, cluster=cluster) == ()


def test_what_mapped_ports_need_is_altered_for_one_broker() -> None:
    """Kafka is restarted for it; what does not fit the listeners is refused."""
    told = {"advertised.listeners": "PLAINTEXT://elsewhere:32768"}

    assert Layers().check_dynamic(told) == ()
    with pytest.raises(NotAlterableError, match="can only be altered for one broker"):
        Layers().check_dynamic(told, cluster=True)
    with pytest.raises(ConfigError, match="names SSL"):
        Layers().check_dynamic({"advertised.listeners": "SSL://elsewhere:32768"})


def test_a_setting_of_a_part_stands_in_the_part() -> None:
    """Settings of TLS are a part of those of security, which are one of the broker's."""
    layers = static(ssl_client_auth="required")

    assert layers.server().security.tls.ssl_client_auth == "required"
    assert SERVER["ssl.client.auth"].value_in(layers.server()) == "required"
    assert SERVER["super.users"].value_in(layers.server()) == ""
    assert SERVER["node.id"].value_in(layers.server()) == 1
