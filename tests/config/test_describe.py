"""Rows as DescribeConfigs answers them, and what `siltstone config` prints."""

import pytest

from siltstone.config.describe import (
    ConfigRow,
    Synonym,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    find_place,
    show,
    show_as_json,
)
from siltstone.config.keys import Kind
from siltstone.config.known import known_settings
from siltstone.config.layers import Given, Layers, Source
from siltstone.config.load import load


def topic_row(name: str, layers: Layers, overrides: dict[str, str] | None = None) -> ConfigRow:
    """Return one row of a topic."""
    return next(row for row in describe_topic(layers, overrides or {}) if row.name == name)


def broker_row(name: str, layers: Layers) -> ConfigRow:
    """Return one row of the broker."""
    return next(row for row in describe_broker(layers) if row.name == name)


def test_a_topic_has_every_current_setting_of_kafka() -> None:
    """Tools find each topic setting of Kafka 4.4.0 with Kafka's default, in order."""
    rows = describe_topic(Layers(), {})
    known = {k.name: k for k in known_settings("topic").values() if k.status == "current"}

    assert [row.name for row in rows] == sorted(known)
    for row in rows:
        assert (row.value, row.type) == (known[row.name].default, known[row.name].kind)
        assert row.source is Source.DEFAULT
        assert not row.read_only
        assert not row.sensitive
        assert row.documentation
        assert row.where == "default"


def test_a_default_shows_the_brokers_setting() -> None:
    """A topic that sets nothing shows the broker setting that gives the default."""
    row = topic_row("segment.bytes", Layers())

    assert row.synonyms == (Synonym("log.segment.bytes", "1073741824", Source.DEFAULT),)
    assert row.default == "1073741824"


def test_an_override_comes_before_the_default() -> None:
    """First the topic's own value, then the broker's default."""
    row = topic_row("cleanup.policy", Layers(), {"cleanup.policy": " compact , delete"})

    assert (row.value, row.source, row.where) == ("compact,delete", Source.TOPIC, "topic")
    assert row.synonyms == (
        Synonym("cleanup.policy", "compact,delete", Source.TOPIC),
        Synonym("log.cleanup.policy", "delete", Source.DEFAULT),
    )


def test_retention_on_a_topic_shows_only_itself() -> None:
    """log.retention.hours is no synonym of retention.ms while log.retention.ms is not set."""
    row = topic_row("retention.ms", Layers(), {"retention.ms": "5"})

    assert row.synonyms == (Synonym("retention.ms", "5", Source.TOPIC),)
    assert topic_row("retention.ms", Layers()).synonyms == ()
    assert topic_row("flush.ms", Layers()).synonyms == ()


def test_hours_are_hidden_but_count() -> None:
    """A value from log.retention.hours is shown converted, without a synonym, as Kafka does."""
    row = topic_row("retention.ms", load(None, {}, ["log.retention.hours=1"]))

    assert (row.value, row.source, row.synonyms) == ("3600000", Source.DEFAULT, ())
    assert row.where == "--set"


def test_all_layers_in_their_order() -> None:
    """Topic, this broker, all brokers, static, default: each where it is set."""
    layers = load(None, {}, ["log.retention.ms=4"]).with_dynamic(
        cluster={"log.retention.ms": "3"}, broker={"log.retention.ms": "2"}
    )

    row = topic_row("retention.ms", layers, {"retention.ms": "1"})

    assert row.synonyms == (
        Synonym("retention.ms", "1", Source.TOPIC),
        Synonym("log.retention.ms", "2", Source.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "3", Source.DYNAMIC_DEFAULT),
        Synonym("log.retention.ms", "4", Source.STATIC),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    )
    assert topic_row("retention.ms", layers).source is Source.DYNAMIC_BROKER


def test_kept_topic_settings_are_shown_as_set() -> None:
    """A setting without meaning shows the topic's value; one of before 4.0 only if it is set."""
    overrides = {"local.retention.ms": "7", "message.format.version": "3.0"}

    assert topic_row("local.retention.ms", Layers(), overrides).synonyms == (
        Synonym("local.retention.ms", "7", Source.TOPIC),
        Synonym("log.local.retention.ms", "-2", Source.DEFAULT),
    )
    assert topic_row("message.format.version", Layers(), overrides).value == "3.0"
    with pytest.raises(StopIteration):
        topic_row("message.format.version", Layers())


def test_internal_segment_bytes_is_shown_where_it_is_set() -> None:
    """It leaves the row of segment.bytes as it is, as in Kafka."""
    own = {"internal.segment.bytes": "2000"}
    row = topic_row("internal.segment.bytes", Layers(), own)

    assert (row.value, row.type, row.source) == ("2000", Kind.INT, Source.TOPIC)
    assert topic_row("segment.bytes", Layers(), own).value == "1073741824"
    assert "no effect" not in row.documentation


def test_broker_rows() -> None:
    """Types, defaults and what can be altered are Kafka's."""
    rows = {row.name: row for row in describe_broker(Layers())}

    assert list(rows) == sorted(rows)
    assert rows["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
    assert rows["log.retention.ms"].value is None
    assert rows["log.retention.hours"].value == "168"
    assert rows["log.retention.hours"].read_only
    assert not rows["log.retention.ms"].read_only
    assert rows["listeners"].type is Kind.LIST
    assert rows["broker.id"].value == rows["node.id"].value == "1"
    assert "num.replica.fetchers" not in rows


def test_broker_rows_from_several_layers() -> None:
    """A broker row shows its own name in each layer, and where its value stands."""
    layers = load(None, {"SILTSTONE_LOG_SEGMENT_BYTES": "2000000"}, []).with_dynamic(
        broker={"log.segment.bytes": "3000000"}
    )

    row = broker_row("log.segment.bytes", layers)

    assert (row.value, row.source) == ("3000000", Source.DYNAMIC_BROKER)
    assert row.where == "dynamic for this broker"
    assert [(s.value, s.source) for s in row.synonyms] == [
        ("3000000", Source.DYNAMIC_BROKER),
        ("2000000", Source.STATIC),
        ("1073741824", Source.DEFAULT),
    ]


def test_another_name_describes_the_same_value() -> None:
    """broker.id and log.dir give node.id and log.dirs, and both names show it as static."""
    layers = load(None, {}, ["broker.id=7", "log.dir=/data"])

    for name, value in (("broker.id", "7"), ("node.id", "7"), ("log.dirs", "/data")):
        row = broker_row(name, layers)
        assert (row.value, row.source, row.where) == (value, Source.STATIC, "--set")


def test_secrets_are_not_shown() -> None:
    """Passwords, and what may be one, have no value in row or synonym."""
    names = ["ssl.key.password", "listener.name.lan.plain.sasl.jaas.config", "rsm.config.token"]
    layers = Layers(static={name: Given("secret", "--set") for name in names})

    for name in names:
        row = broker_row(name, layers)
        assert row.sensitive
        assert row.value is None
        assert [synonym.value for synonym in row.synonyms] == [None]
    assert "secret" not in repr(describe_broker(layers))


def test_kept_broker_settings_are_shown_when_given() -> None:
    """A setting without meaning is described once somebody set it."""
    layers = load(None, {}, ["background.threads=5", "process.roles=broker"])

    assert broker_row("background.threads", layers).value == "5"
    assert not broker_row("background.threads", layers).read_only
    assert broker_row("process.roles", layers).read_only


def test_defaults_for_all_brokers() -> None:
    """The empty broker name describes what was set for all, and no other layer."""
    layers = load(None, {}, ["log.retention.ms=1"]).with_dynamic(
        cluster={"log.retention.ms": "2"}, broker={"log.retention.ms": "3"}
    )

    (row,) = describe_cluster_default(layers)

    assert (row.name, row.value, row.source) == ("log.retention.ms", "2", Source.DYNAMIC_DEFAULT)
    assert row.synonyms == (Synonym("log.retention.ms", "2", Source.DYNAMIC_DEFAULT),)
    assert row.where == "dynamic for all brokers"


def test_the_place_of_a_segments_size_is_that_of_what_wins() -> None:
    """Explain names it."""
    own = {"internal.segment.bytes": "2000", "segment.bytes": "3000000"}

    assert find_place(Layers(), own, "segment.bytes").name == "internal.segment.bytes"
    assert find_place(Layers(), {"segment.bytes": "1"}, "segment.bytes").name == "segment.bytes"


def test_every_printed_value_has_its_place() -> None:
    """Each line is a setting, its value and where that stands; secrets are hidden."""
    environ = {"SILTSTONE_LOG_SEGMENT_BYTES": "2000000"}

    layers = load(None, environ, ["num.partitions=4", "rsm.config.key=secret"])
    lines = list(show(show_as_json(layers)))

    assert "log.segment.bytes = 2000000  (SILTSTONE_LOG_SEGMENT_BYTES)" in lines
    assert "num.partitions = 4  (--set)" in lines
    assert "log.retention.ms = (none)  (default)" in lines
    assert "fetch.max.bytes = 57671680  (default)" in lines
    assert "rsm.config.key = (hidden)  (--set)" in lines
    assert "secret" not in "".join(lines)
