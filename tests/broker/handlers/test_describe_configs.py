"""DescribeConfigs and ListConfigResources: values, sources and synonyms as Kafka tells them."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 32
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def _describe(
    home: ServicesOnDisk,
    *resources: tuple[int, str],
    keys: tuple[str, ...] | None = None,
    synonyms: bool = True,
    documentation: bool = False,
    version: int = 4,
) -> list[Any]:
    rows = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name in resources
    ]
    shown = {"include_synonyms": synonyms, "include_documentation": documentation}
    return list((await ask(home, 32, request(32, 4, resources=rows, **shown), version)).results)


def _synonyms(config: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


async def test_a_topic_shows_every_setting_of_kafkas(home: ServicesOnDisk) -> None:
    """37 in 4.4.0, none of them read-only; null and empty keys mean all."""
    await home.services.topics.create("t", 1, {})
    for keys in (None, ()):
        [result] = await _describe(home, (TOPIC, "t"), keys=keys)

        assert (result.error_code, len(result.configs)) == (ErrorCode.none, 37)
        assert not any(each.read_only or each.is_sensitive for each in result.configs)


async def test_a_stored_value_that_is_no_longer_valid_is_left_out(home: ServicesOnDisk) -> None:
    """The topic has the broker's instead, as its log has; no request fails over it."""
    topic = await home.services.topics.create("t", 1, {"retention.ms": "5"})
    topic.overrides = {"retention.ms": "5", "cleanup.policy": "Compact", "segment.bytes": "x"}
    keys = ("cleanup.policy", "retention.ms", "segment.bytes")
    [result] = await _describe(home, (TOPIC, "t"), keys=keys)

    assert [each.value for each in result.configs] == ["delete", "5", "1073741824"]


async def test_synonyms_of_a_topic_setting(home: ServicesOnDisk) -> None:
    """Its own value, then the broker's; retention.ms of its own stands alone."""
    await home.services.topics.create("t", 1, {"cleanup.policy": "compact", "retention.ms": "5"})
    [result] = await _describe(home, (TOPIC, "t"), keys=("cleanup.policy", "retention.ms"))
    policy, retention = result.configs

    assert (policy.value, policy.config_source, policy.config_type) == ("compact", 1, 7)
    assert _synonyms(policy) == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert (retention.value, retention.config_source, retention.config_type) == ("5", 1, 5)
    assert _synonyms(retention) == [("retention.ms", "5", 1)]


async def test_dynamic_values_of_brokers_are_sources_of_their_own(home: ServicesOnDisk) -> None:
    """This broker's before that of all."""
    await home.services.topics.create("t", 1, {})
    await home.services.settings.alter(
        cluster={"message.max.bytes": "3000000"}, broker={"message.max.bytes": "2000000"}
    )
    [topic, broker, cluster] = await _describe(
        home,
        (TOPIC, "t"),
        (BROKER, "1"),
        (BROKER, ""),
        keys=("max.message.bytes", "message.max.bytes"),
    )
    values = [("message.max.bytes", "2000000", 2), ("message.max.bytes", "3000000", 3)]
    default = [("message.max.bytes", "1048588", 5)]

    assert (topic.configs[0].value, topic.configs[0].config_source) == ("2000000", 2)
    assert _synonyms(topic.configs[0]) == values + default
    assert _synonyms(broker.configs[0]) == values + default
    assert _synonyms(cluster.configs[0]) == [values[1]]
    assert cluster.configs[0].value == "3000000"


async def test_values_for_all_brokers_are_shown_alone(home: ServicesOnDisk) -> None:
    """The empty name stands for what was set for all brokers, not for all settings."""
    [cluster, broker] = await _describe(home, (BROKER, ""), (BROKER, "1"))
    configs = {each.name: each for each in broker.configs}

    assert [(each.name, each.config_source) for each in cluster.configs] == [
        ("min.insync.replicas", 3)
    ]
    assert configs["node.id"].read_only
    assert configs["advertised.listeners"].read_only  # as Kafka says; it can be altered
    assert configs["log.dirs"].config_source == 4
    assert not configs["log.retention.ms"].read_only


async def test_what_is_kept_of_settings_follows_every_change(home: ServicesOnDisk) -> None:
    """A topic's own values and the broker's; topics of other values beside it keep theirs."""
    for name in ("t", "u"):
        await home.services.topics.create(name, 1, {})
    told = []
    for topic, broker in (({}, "6"), ({"retention.ms": "5"}, "6"), ({}, "7")):
        await home.services.topics.alter(home.services.topics.topics["t"], topic)
        await home.services.settings.alter(broker={"log.retention.ms": broker})
        results = await _describe(
            home,
            (TOPIC, "t"),
            (TOPIC, "u"),
            (BROKER, "1"),
            keys=("retention.ms", "log.retention.ms"),
        )
        told.append([each.configs[0].value for each in results])

    assert told == [["6", "6", "6"], ["5", "6", "6"], ["7", "7", "7"]]


async def test_only_what_is_asked_for(home: ServicesOnDisk) -> None:
    """Unknown keys are absent; synonyms and documentation only on demand."""
    await home.services.topics.create("t", 1, {})
    [plain] = await _describe(home, (TOPIC, "t"), keys=("segment.ms", "nope"), synonyms=False)
    [documented] = await _describe(home, (TOPIC, "t"), documentation=True)

    assert [each.name for each in plain.configs] == ["segment.ms"]
    assert plain.configs[0].synonyms == ()
    assert plain.configs[0].documentation is None
    assert all(each.documentation for each in documented.configs)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "a/b", ErrorCode.invalid_topic_exception),
        (TOPIC, "", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (LOGGER, "", ErrorCode.invalid_request),
        (LOGGER, "2", ErrorCode.invalid_request),
        (METRICS, "", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
    ],
)
async def test_resources_without_settings(
    home: ServicesOnDisk, kind: int, name: str, code: ErrorCode
) -> None:
    """Each echoes its type and name."""
    [result] = await _describe(home, (kind, name))

    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert result.configs == ()
    assert (result.error_message == "") == (code is ErrorCode.none)


async def test_a_subscription_that_nobody_made_has_defaults(home: ServicesOnDisk) -> None:
    """As in Kafka, which does not say that it does not exist."""
    [result] = await _describe(home, (METRICS, "m"))

    assert {each.name: each.value for each in result.configs} == {
        "interval.ms": "300000", "match": "", "metrics": ""
    }  # fmt: skip


async def test_an_unknown_type_refuses_the_whole_request(home: ServicesOnDisk) -> None:
    """Kafka throws, so every resource has the error."""
    await home.services.topics.create("t", 1, {})
    results = await _describe(home, (TOPIC, "t"), (64, "x"))

    assert [each.error_code for each in results] == [ErrorCode.invalid_request] * 2


async def test_loggers_are_described(home: ServicesOnDisk) -> None:
    """With the source and the type that Kafka gives them."""
    [result] = await _describe(
        home, (LOGGER, "1"), keys=("root", "siltstone.broker.topics.registry")
    )

    assert [each.name for each in result.configs] == ["root", "siltstone.broker.topics.registry"]
    assert {(each.config_source, each.config_type) for each in result.configs} == {(6, 0)}


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Topic, broker and logger."""
    await home.services.topics.create("t", 1, {})
    results = await _describe(
        home, (TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), version=version, documentation=True
    )

    assert all(each.configs for each in results)


async def test_resources_are_listed_by_type(home: ServicesOnDisk) -> None:
    """No type means all; one that is not known refuses the request; version 0 has metrics only."""
    await home.services.topics.create("t", 1, {})

    async def listed(*kinds: int, version: int = 1) -> Any:
        return await ask(home, 74, request(74, 1, resource_types=kinds), version)

    everything = (await listed()).config_resources
    assert [(each.resource_type, each.resource_name) for each in everything] == [
        (TOPIC, "t"),
        (BROKER, "1"),
        (LOGGER, "1"),
    ]
    assert [each.resource_type for each in (await listed(BROKER)).config_resources] == [BROKER]
    assert (await listed(TOPIC, 99)).error_code is ErrorCode.unsupported_version
    assert (await listed(METRICS, version=0)).config_resources == ()
    await home.services.settings.alter_group("g", {"consumer.session.timeout.ms": "50000"})
    [group] = (await listed(GROUP)).config_resources
    assert (group.resource_type, group.resource_name) == (GROUP, "g")


async def test_a_group_shows_its_own_settings_and_the_brokers(home: ServicesOnDisk) -> None:
    """Its own first, with the source of dynamic group settings; then what holds for all groups."""
    await home.services.settings.alter_group("g", {"consumer.session.timeout.ms": "50000"})

    [result] = await _describe(home, (GROUP, "g"))

    configs = {each.name: each for each in result.configs}
    assert {name: (each.value, each.config_source) for name, each in configs.items()} == {
        "consumer.assignment.interval.ms": ("1000", 5),
        "consumer.heartbeat.interval.ms": ("5000", 5),
        "consumer.session.timeout.ms": ("50000", 8),
        "errors.deadletterqueue.copy.record.enable": ("false", 5),
        "errors.deadletterqueue.topic.name": ("", 5),
        "share.assignment.interval.ms": ("1000", 5),
        "share.auto.offset.reset": ("latest", 5),
        "share.delivery.count.limit": ("5", 5),
        "share.heartbeat.interval.ms": ("5000", 5),
        "share.isolation.level": ("read_uncommitted", 5),
        "share.partition.max.record.locks": ("2000", 5),
        "share.record.lock.duration.ms": ("30000", 5),
        "share.renew.acknowledge.enable": ("true", 5),
        "share.session.timeout.ms": ("45000", 5),
        "streams.assignment.interval.ms": ("1000", 5),
        "streams.assignor.name": (None, 5),
        "streams.heartbeat.interval.ms": ("5000", 5),
        "streams.initial.rebalance.delay.ms": ("3000", 5),
        "streams.num.standby.replicas": ("0", 5),
        "streams.rack.aware.assignment.tags": ("", 5),
        "streams.session.timeout.ms": ("45000", 5),
    }
    assert _synonyms(configs["consumer.session.timeout.ms"]) == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    [other] = await _describe(home, (GROUP, "other"))
    assert {each.config_source for each in other.configs} == {5}
