"""IncrementalAlterConfigs and AlterConfigs: in force when answered, kept, or refused."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Update
from siltstone.protocol.errors import InvalidUpdateVersion
from siltstone.storage.directory.catalog import CatalogState
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
REPLICAS = "replication.throttled.replicas"

Op = tuple[str, int, str | None]
Resource = tuple[int, str, list[Op]]


async def _change(
    home: ServicesOnDisk, *resources: Resource, validate_only: bool = False, version: int = 1
) -> list[Any]:
    names = ("name", "config_operation", "value")
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [dict(zip(names, each, strict=True)) for each in changes],
        }
        for kind, name, changes in resources
    ]
    wanted = request(44, 1, resources=rows, validate_only=validate_only)
    return list((await ask(home, 44, wanted, version)).responses)


async def _replace(
    home: ServicesOnDisk,
    *resources: tuple[int, str, dict[str, str | None]],
    validate_only: bool = False,
    version: int = 2,
) -> list[Any]:
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in values.items()],
        }
        for kind, name, values in resources
    ]
    wanted = request(33, 2, resources=rows, validate_only=validate_only)
    return list((await ask(home, 33, wanted, version)).responses)


async def test_a_change_of_a_topic_is_obeyed_at_once(home: ServicesOnDisk) -> None:
    """By its logs; and removing it gives the default back."""
    await home.services.topics.create("t", 1, {})
    log = home.services.topics.logs["t", 0]
    [result] = await _change(home, (TOPIC, "t", [("max.message.bytes", SET, "100")]))
    assert (result.error_code, result.resource_type, result.resource_name) == (
        ErrorCode.none,
        TOPIC,
        "t",
    )
    assert log.config.max_message_bytes == 100
    await _change(home, (TOPIC, "t", [("max.message.bytes", DELETE, None)]))

    assert log.config.max_message_bytes == 1048588


async def test_a_list_has_nothing_twice(home: ServicesOnDisk) -> None:
    """A value that is set or appended a second time counts once."""
    topic = await home.services.topics.create("t", 1, {})
    await _change(home, (TOPIC, "t", [("cleanup.policy", SET, "compact,compact")]))
    assert home.services.topics.logs["t", 0].config.cleanup_policy == ("compact",)
    await _change(home, (TOPIC, "t", [("cleanup.policy", APPEND, "compact,compact")]))

    assert topic.overrides["cleanup.policy"] == "compact"


async def test_lists_grow_and_shrink(home: ServicesOnDisk) -> None:
    """From delete to compact over both."""
    topic = await home.services.topics.create("t", 1, {})
    await _change(home, (TOPIC, "t", [("cleanup.policy", APPEND, "compact")]))
    assert topic.overrides["cleanup.policy"] == "delete,compact"
    await _change(home, (TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]))

    assert topic.overrides["cleanup.policy"] == "compact"
    assert home.services.topics.logs["t", 0].config.is_compacted


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((TOPIC, "t", [("a", SET, "1"), ("a", SET, "1")]), ErrorCode.invalid_request),
        ((TOPIC, "t", [("retention.ms", SET, None)]), ErrorCode.invalid_request),
        ((TOPIC, "t", [("retention.ms", 7, "1")]), ErrorCode.invalid_request),
        ((TOPIC, "t", [("retention.ms", APPEND, "1")]), ErrorCode.invalid_config),
        ((TOPIC, "t", [("no.such", SET, "1")]), ErrorCode.invalid_config),
        ((TOPIC, "t", [("retention.ms", SET, "x")]), ErrorCode.invalid_config),
        ((TOPIC, "missing", [("no.such", SET, "1")]), ErrorCode.invalid_config),
        ((TOPIC, "missing", [("retention.ms", SET, "1")]), ErrorCode.unknown_topic_or_partition),
        ((TOPIC, "a/b", [("retention.ms", SET, "1")]), ErrorCode.invalid_topic_exception),
        ((TOPIC, "", [("retention.ms", SET, "1")]), ErrorCode.invalid_request),
        ((BROKER, "2", [("log.retention.ms", SET, "1")]), ErrorCode.invalid_request),
        ((BROKER, "x", [("log.retention.ms", SET, "1")]), ErrorCode.invalid_request),
        ((BROKER, "", [("log.retention.ms", SET, "y")]), ErrorCode.invalid_request),
        ((BROKER, "1", [("node.id", SET, "5")]), ErrorCode.invalid_request),
        ((BROKER, "", [("num.partitions", SET, "5")]), ErrorCode.invalid_request),
        ((BROKER, "1", [("log.retention.hours", SET, "5")]), ErrorCode.invalid_request),
        ((LOGGER, "1", [("no.such.logger", SET, "INFO")]), ErrorCode.invalid_config),
        ((LOGGER, "1", [("root", SET, "LOUD")]), ErrorCode.invalid_config),
        ((LOGGER, "1", [("root", APPEND, "INFO")]), ErrorCode.invalid_request),
        ((LOGGER, "1", [("root", DELETE, None)]), ErrorCode.invalid_request),
        ((LOGGER, "2", [("root", SET, "INFO")]), ErrorCode.invalid_request),
        ((METRICS, "m", [("interval.ms", SET, "1")]), ErrorCode.invalid_request),
        ((METRICS, "m", [("metrics", APPEND, "a.")]), ErrorCode.invalid_config),
        ((METRICS, "", [("metrics", APPEND, "a.")]), ErrorCode.invalid_config),
        ((TOPIC, "a/b", [("retention.ms", APPEND, "1")]), ErrorCode.invalid_config),
        ((GROUP, "", [("no.such", SUBTRACT, "1")]), ErrorCode.invalid_config),
        ((BROKER, "1", [("max.connections", SET, "0")]), ErrorCode.invalid_request),
        ((BROKER, "1", [("max.connections.per.ip", SET, "0")]), ErrorCode.invalid_request),
        ((BROKER, "1", [("min.insync.replicas", SET, "x")]), ErrorCode.invalid_request),
        ((TOPIC, "t", [(f"leader.{REPLICAS}", SET, "all")]), ErrorCode.invalid_config),
        ((TOPIC, "t", [(f"follower.{REPLICAS}", SET, "1:-1")]), ErrorCode.invalid_config),
        ((GROUP, "g", [("consumer.session.timeout.ms", SET, "1")]), ErrorCode.invalid_config),
        ((GROUP, "g", [("consumer.session.timeout.ms", SET, "x")]), ErrorCode.invalid_config),
        ((GROUP, "g", [("retention.ms", SET, "1")]), ErrorCode.invalid_config),
        ((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]), ErrorCode.invalid_request),
        ((5, "x", [("a", SET, "1")]), ErrorCode.invalid_request),
        ((TOPIC, "t", [("retention.bytes", DELETE, None)]), ErrorCode.none),
        ((TOPIC, "t", [("no.such", DELETE, None)]), ErrorCode.none),
        ((TOPIC, "t", []), ErrorCode.none),
    ],
)
async def test_refusals(home: ServicesOnDisk, resource: Resource, code: ErrorCode) -> None:
    """Type and name are always echoed, and what is refused changes nothing."""
    topic = await home.services.topics.create("t", 1, {"segment.ms": "7"})
    generation = home.services.topics.generation
    [result] = await _change(home, resource)

    assert result.error_code is code
    assert (result.resource_type, result.resource_name) == resource[:2]
    assert bool(result.error_message) == (code is not ErrorCode.none)
    assert topic.overrides == {"segment.ms": "7"}
    assert home.services.topics.generation == generation


async def test_a_resource_twice_is_refused_twice(home: ServicesOnDisk) -> None:
    """The others of the request are changed."""
    for name in ("a", "b"):
        await home.services.topics.create(name, 1, {})
    one: Resource = (TOPIC, "a", [("retention.ms", SET, "1")])
    results = await _change(home, one, one, (TOPIC, "b", one[2]))

    assert [each.error_code for each in results] == [
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]


async def test_changes_of_many_clients_do_not_lose_each_other(home: ServicesOnDisk) -> None:
    """Reading the old settings and putting the new ones in force lie in one turn of the loop."""
    topic = await home.services.topics.create("t", 1, {})
    names = ("retention.ms", "segment.ms", "flush.ms", "retention.bytes")
    await asyncio.gather(*(_change(home, (TOPIC, "t", [(name, SET, "1000")])) for name in names))

    assert topic.overrides == dict.fromkeys(names, "1000")


async def test_validating_changes_nothing(home: ServicesOnDisk) -> None:
    """Neither kind of request, on no kind of resource."""
    topic = await home.services.topics.create("t", 1, {})
    before = home.services.settings.layers
    level = logging.root.level
    changed = await _change(
        home,
        (TOPIC, "t", [("retention.ms", SET, "1")]),
        (BROKER, "", [("log.retention.ms", SET, "1")]),
        (LOGGER, "1", [("root", SET, "FATAL")]),
        validate_only=True,
    )
    replaced = await _replace(home, (TOPIC, "t", {"retention.ms": "1"}), validate_only=True)

    assert {each.error_code for each in changed + replaced} == {ErrorCode.none}
    assert topic.overrides == {}
    assert home.services.settings.layers is before
    assert logging.root.level == level


@pytest.mark.parametrize(
    "changes",
    [
        [(BROKER, "", ("log.retention.ms", "1000")), (BROKER, "1", ("log.segment.bytes", "2000"))],
        [(BROKER, "1", ("log.retention.ms", "1000")), (BROKER, "1", ("log.roll.ms", "2000"))],
        [(TOPIC, "t", ("retention.ms", "1000")), (TOPIC, "t", ("segment.ms", "2000"))],
        [
            (GROUP, "g", ("consumer.session.timeout.ms", "50000")),
            (GROUP, "g", ("consumer.heartbeat.interval.ms", "6000")),
        ],
        [(METRICS, "m", ("interval.ms", "1000")), (METRICS, "m", ("metrics", "a."))],
    ],
    ids=["both brokers", "broker", "topic", "group", "metrics"],
)
async def test_what_is_altered_side_by_side_is_all_kept(
    tmp_path: Path, changes: list[tuple[int, str, tuple[str, str]]]
) -> None:
    """No matter which is told first, and which request comes to the disk first."""
    home = await ServicesOnDisk(tmp_path).open()
    await home.services.topics.create("t", 1, {})
    turns = iter([3, 1])

    async def obey_at_leisure() -> None:
        for _ in range(next(turns, 0)):
            await asyncio.sleep(0)

    home.services.settings.on_change(obey_at_leisure)
    answers = await asyncio.gather(
        *(_change(home, (kind, name, [(key, SET, value)])) for kind, name, (key, value) in changes)
    )
    assert [each.error_code for [each] in answers] == [ErrorCode.none] * 2
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    settings = again.services.settings

    kept = {
        (BROKER, ""): settings.layers.cluster,
        (BROKER, "1"): settings.layers.broker,
        (TOPIC, "t"): again.services.topics.topics["t"].overrides,
        (GROUP, "g"): settings.group_overrides.get("g", {}),
        (METRICS, "m"): settings.client_metrics.get("m", {}),
    }
    assert [kept[kind, name].get(key) for kind, name, (key, _) in changes] == [
        value for _, _, (_, value) in changes
    ]
    await again.close()


@pytest.mark.parametrize(
    ("kind", "name", "first", "second"),
    [
        (BROKER, "1", ("log.retention.ms", "6000"), ("log.roll.ms", "7000")),
        (TOPIC, "t", ("retention.ms", "6000"), ("segment.ms", "7000")),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", "50000"),
            ("consumer.heartbeat.interval.ms", "6000"),
        ),
        (METRICS, "m", ("interval.ms", "6000"), ("metrics", "a.")),
    ],
)
async def test_what_was_refused_is_not_kept_by_the_next_change(
    home: ServicesOnDisk,
    monkeypatch: pytest.MonkeyPatch,
    kind: int,
    name: str,
    first: tuple[str, str],
    second: tuple[str, str],
) -> None:
    """The disk refuses a change while the next one comes: that one alone is in force."""
    topic = await home.services.topics.create("t", 1, {})
    settings, write = home.services.settings, home.catalog.write
    begun, may_fail = threading.Event(), threading.Event()

    def refuse_once(_state: CatalogState) -> None:
        monkeypatch.setattr(home.catalog, "write", write)
        begun.set()
        may_fail.wait(10)
        raise OSError(28, "No space left on device")

    async def change(key: str, value: str) -> ErrorCode:
        [answer] = await _change(home, (kind, name, [(key, SET, value)]))
        code: ErrorCode = answer.error_code
        return code

    monkeypatch.setattr(home.catalog, "write", refuse_once)
    refused = asyncio.create_task(change(*first))
    await asyncio.to_thread(begun.wait, 10)
    taken = asyncio.create_task(change(*second))
    for _ in range(10):
        await asyncio.sleep(0)
    may_fail.set()
    answers = [await refused, await taken]
    own = {
        BROKER: lambda: settings.layers.broker,
        TOPIC: lambda: topic.overrides,
        GROUP: lambda: settings.group_overrides.get("g", {}),
        METRICS: lambda: settings.client_metrics.get("m", {}),
    }[kind]()

    assert answers == [ErrorCode.kafka_storage_error, ErrorCode.none]
    assert own == dict([second])


async def test_dynamic_values_of_brokers_survive_a_restart(tmp_path: Path) -> None:
    """For all brokers and for this one."""
    home = await ServicesOnDisk(tmp_path).open()
    results = await _change(
        home,
        (BROKER, "", [("log.retention.ms", SET, "1000")]),
        (BROKER, "1", [("log.segment.bytes", SET, "2000000")]),
    )
    assert [each.error_code for each in results] == [ErrorCode.none] * 2
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    layers = again.services.settings.layers

    assert layers.cluster == {"log.retention.ms": "1000", "min.insync.replicas": "1"}
    assert layers.broker == {"log.segment.bytes": "2000000"}
    await again.close()


@pytest.mark.parametrize("value", [None, "", "DEBUG"])
async def test_the_level_of_a_logger_is_deleted_whatever_comes_along(
    home: ServicesOnDisk, value: str | None
) -> None:
    """kafka-configs --delete-config sends an empty value; Kafka reads none of it."""
    logger = logging.getLogger("tests.altered")
    await _change(home, (LOGGER, "1", [("tests.altered", SET, "ERROR")]))
    [answer] = await _change(home, (LOGGER, "1", [("tests.altered", DELETE, value)]))

    assert answer.error_code is ErrorCode.none
    assert logger.level == logging.NOTSET


async def test_levels_of_loggers_change(home: ServicesOnDisk) -> None:
    """All of a request or none: a bad one leaves the good one beside it alone."""
    logger = logging.getLogger("tests.altered")
    [bad] = await _change(
        home, (LOGGER, "1", [("tests.altered", SET, "DEBUG"), ("no.such.logger", SET, "INFO")])
    )
    assert bad.error_code is ErrorCode.invalid_config
    assert logger.level == logging.NOTSET
    await _change(home, (LOGGER, "1", [("tests.altered", SET, "DEBUG")]))
    assert logger.level == logging.DEBUG
    await _change(home, (LOGGER, "1", [("tests.altered", DELETE, None)]))

    assert logger.level == logging.NOTSET


async def test_replacing_resets_what_is_not_mentioned(home: ServicesOnDisk) -> None:
    """The whole set of a topic's own settings."""
    topic = await home.services.topics.create("t", 1, {"retention.ms": "1", "segment.ms": "2"})
    await _replace(home, (TOPIC, "t", {"retention.ms": "9"}))
    assert topic.overrides == {"retention.ms": "9"}
    await _replace(home, (TOPIC, "t", {}))

    assert topic.overrides == {}


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (TOPIC, "t", {"retention.ms": None}, ErrorCode.invalid_request),
        (TOPIC, "t", {"no.such": "1"}, ErrorCode.invalid_config),
        (TOPIC, "missing", {"retention.ms": "1"}, ErrorCode.unknown_topic_or_partition),
        (BROKER, "1", {"log.retention.ms": "99999"}, ErrorCode.none),
        (BROKER, "1", {"node.id": "7"}, ErrorCode.invalid_request),
        (LOGGER, "1", {"root": "INFO"}, ErrorCode.invalid_request),
    ],
)
async def test_refusals_of_replacing(
    home: ServicesOnDisk, kind: int, name: str, values: dict[str, str | None], code: ErrorCode
) -> None:
    """The same rules as for single changes, and loggers are left out."""
    await home.services.topics.create("t", 1, {})
    [result] = await _replace(home, (kind, name, values))

    assert result.error_code is code


@pytest.mark.parametrize("version", range(3))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """Of both requests."""
    await home.services.topics.create("t", 1, {})
    assert await _replace(home, (TOPIC, "t", {"retention.ms": "1"}), version=version)

    assert await _change(home, (TOPIC, "t", []), version=min(version, 1))


async def test_settings_of_a_group_are_obeyed_at_once_and_kept(tmp_path: Path) -> None:
    """The group need not exist; removing the last one leaves nothing behind."""
    home = await ServicesOnDisk(tmp_path / "home").open()
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    await _change(home, (GROUP, "g", [(session, SET, "50000"), (interval, SET, "6000")]))
    await home.close()
    home = await ServicesOnDisk(tmp_path / "home").open()
    policies = home.services.consumer_groups().policies

    assert policies.of("g").session_timeout_ms == 50_000
    assert policies.of("g").heartbeat_interval_ms == 6000
    assert policies.of("other").session_timeout_ms == 45_000
    await _change(home, (GROUP, "g", [(session, DELETE, None)]), validate_only=True)
    assert policies.of("g").session_timeout_ms == 50_000
    await _replace(home, (GROUP, "g", {interval: "7000"}))
    assert (policies.of("g").session_timeout_ms, policies.of("g").heartbeat_interval_ms) == (
        45_000,
        7000,
    )
    await _change(home, (GROUP, "g", [(interval, DELETE, None)]))
    assert home.services.settings.group_overrides == {}
    await home.close()


async def _levels(home: ServicesOnDisk, level: int) -> None:
    update = Update("eligible.leader.replicas.version", level, 1 if level else 2)
    await home.services.features.update([update], validate_only=False)
    agree(home.services.features, home.services.settings)


async def test_a_level_is_judged_by_the_one_that_the_change_before_has_left(
    home: ServicesOnDisk,
) -> None:
    """Of two downgrades side by side the second would be none."""
    features = home.services.features
    outcomes = await asyncio.gather(
        features.update([Update("transaction.version", 0, 3)], validate_only=False),
        features.update([Update("transaction.version", 1, 3)], validate_only=False),
        return_exceptions=True,
    )

    assert [type(each) for each in outcomes] == [type(None), InvalidUpdateVersion]
    assert features.level("transaction.version") == 0


async def test_brokers_agree_on_the_least_in_sync(home: ServicesOnDisk) -> None:
    """With eligible.leader.replicas.version 1: one value for all, which stays."""
    all_brokers, this_one = (BROKER, ""), (BROKER, "1")
    value, gone = ("min.insync.replicas", SET, "2"), ("min.insync.replicas", DELETE, None)

    async def codes() -> list[ErrorCode]:
        asked: list[Resource] = [(*this_one, [value]), (*this_one, [gone]), (*all_brokers, [gone])]
        return [(await _change(home, each))[0].error_code for each in asked]

    assert home.services.settings.layers.cluster == {"min.insync.replicas": "1"}
    assert await codes() == [ErrorCode.invalid_config] * 3
    (replaced,) = await _replace(home, (*all_brokers, {}))
    assert replaced.error_code is ErrorCode.invalid_config
    (changed,) = await _change(home, (*all_brokers, [value]))
    assert changed.error_code is ErrorCode.none
    assert home.services.settings.layers.cluster == {"min.insync.replicas": "2"}

    await _levels(home, 0)
    assert await codes() == [ErrorCode.none] * 3
    await _change(home, (*this_one, [value]))
    await _levels(home, 1)

    assert home.services.settings.layers.cluster == {"min.insync.replicas": "1"}
    assert home.services.settings.layers.broker == {}
