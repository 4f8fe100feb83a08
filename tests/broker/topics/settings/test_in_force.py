"""Dynamic settings: in force at once, kept, undone if the disk does not take them."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.broker.groups.consumer.policy import GroupPolicies
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Given, Layers
from siltstone.protocol.errors import InvalidConfig, InvalidRequest, KafkaStorageError
from siltstone.storage.directory.catalog import CatalogState
from tests.support.services import ServicesOnDisk


async def test_logs_obey_at_once(home: ServicesOnDisk) -> None:
    """Topics without a value of their own follow the broker's; the others do not."""
    topics, settings = home.services.topics, home.services.settings
    await topics.create("follows", 1, {})
    await topics.create("own", 1, {"retention.ms": "5"})
    await settings.alter(cluster={"log.retention.ms": "60000"})

    assert settings.server.topic_defaults.retention_ms == 60000
    assert topics.logs["follows", 0].config.retention_ms == 60000
    assert topics.logs["own", 0].config.retention_ms == 5
    assert topics.topics["follows"].config.retention_ms == 60000


async def test_this_broker_wins_over_all_and_both_survive_a_restart(tmp_path: Path) -> None:
    """Kafka's order of precedence, from the catalogue."""
    home = await ServicesOnDisk(tmp_path, log_retention_ms="3").open()
    await home.services.settings.alter(
        cluster={"log.retention.ms": "1", "message.max.bytes": "2000000"}
    )
    await home.services.settings.alter(broker={"log.retention.ms": "2"})
    home.crash()
    again = await ServicesOnDisk(tmp_path, log_retention_ms="3").open()
    defaults = again.services.settings.server.topic_defaults

    assert (defaults.retention_ms, defaults.max_message_bytes) == (2, 2000000)
    await again.close()


async def test_a_full_disk_undoes_the_change(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays in force that a restart would not bring back."""
    await home.services.topics.create("orders", 1, {})
    before = home.services.settings.layers

    def write(_state: CatalogState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home.catalog, "write", write)
    with pytest.raises(KafkaStorageError):
        await home.services.settings.alter(cluster={"log.retention.ms": "1"})

    assert home.services.settings.layers is before
    assert home.services.topics.logs["orders", 0].config.retention_ms != 1


async def test_changes_that_fail_together_are_undone_together(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second was made on top of the first, and neither is on the disk."""
    settings = home.services.settings
    topic = await home.services.topics.create("orders", 1, {"retention.ms": "7"})
    before = settings.layers

    def write(_state: CatalogState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home.catalog, "write", write)
    outcomes = await asyncio.gather(
        settings.alter(cluster={"log.retention.ms": "1"}),
        settings.alter(broker={"log.cleaner.threads": "2"}),
        home.services.topics.alter(topic, {"retention.ms": "1"}),
        home.services.topics.alter(topic, {"retention.ms": "1", "segment.ms": "2"}),
        return_exceptions=True,
    )

    assert [type(each) for each in outcomes] == [KafkaStorageError] * 4
    assert settings.layers is before
    assert (topic.overrides, topic.config.retention_ms) == ({"retention.ms": "7"}, 7)


async def test_a_refused_change_is_undone_below_what_was_read_again_meanwhile(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's new values stay in force, without those that the disk did not take."""
    settings = home.services.settings
    begun, may_fail = threading.Event(), threading.Event()

    def write(_state: CatalogState) -> None:
        begun.set()
        may_fail.wait(10)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home.catalog, "write", write)
    refused = asyncio.create_task(settings.alter(cluster={"log.retention.ms": "1"}))
    await asyncio.to_thread(begun.wait, 10)
    static = {**settings.layers.static, "log.segment.bytes": Given("2000000", "test")}
    await settings.reload(replace(settings.layers, static=static))
    may_fail.set()
    with pytest.raises(KafkaStorageError):
        await refused

    defaults = settings.server.topic_defaults
    assert (defaults.retention_ms, defaults.segment_bytes) == (604_800_000, 2_000_000)
    assert "log.retention.ms" not in settings.layers.cluster


async def test_who_is_told_last_sees_the_last_settings(home: ServicesOnDisk) -> None:
    """Else a part that obeys in a thread could end with the older of two at once."""
    settings = home.services.settings
    told: list[Layers] = []
    turns = iter([5, 1])
    begun = asyncio.Event()

    async def obey() -> None:
        begun.set()
        seen = settings.layers
        for _ in range(next(turns)):
            await asyncio.sleep(0)
        told.append(seen)

    settings.on_change(obey)
    changed = asyncio.create_task(settings.alter(cluster={"log.retention.ms": "7"}))
    await begun.wait()
    await settings.reload(replace(settings.layers))
    await changed

    assert told[0] is not told[1]
    assert told[1] is settings.layers


async def test_what_does_not_parse_changes_nothing(home: ServicesOnDisk) -> None:
    """A bad value is refused before anything obeys it."""
    before = home.services.settings.layers
    with pytest.raises(ConfigError):
        await home.services.settings.alter(cluster={"log.retention.ms": "soon"})

    assert home.services.settings.layers is before


async def test_stored_values_that_are_no_longer_valid_do_not_stop_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are left out, each with a line; what is valid beside them counts."""
    home = await ServicesOnDisk(tmp_path).open()
    await home.services.topics.create("orders", 1, {})

    def spoil(state: CatalogState) -> None:
        state.broker_configs = {"log.retention.ms": "soon", "log.segment.bytes": "4000000"}

    await home.writer.commit(spoil)
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()

    assert again.services.settings.server.topic_defaults.segment_bytes == 4000000
    assert sum("stored setting is left out" in line for line in caplog.messages) == 1
    await again.close()


async def test_stored_promises_that_are_not_kept_do_not_stop_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could take them back from a broker that does not run; each is left out with a line."""
    home = await ServicesOnDisk(tmp_path).open()

    def promise(state: CatalogState) -> None:
        state.cluster_configs = {"client.quota.callback.class": "a.B", "background.threads": "5"}

    await home.writer.commit(promise)
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()

    cluster = again.services.settings.layers.cluster
    assert "client.quota.callback.class" not in cluster
    assert cluster["background.threads"] == "5"
    assert "left out: client.quota.callback.class promises quotas" in caplog.text
    await again.close()


async def test_equal_topics_share_their_settings(home: ServicesOnDisk) -> None:
    """Thousands of topics alike cost one value."""
    settings = home.services.settings
    first = settings.topic_config({"retention.ms": "5", "segment.ms": "6"})
    second = settings.topic_config({"segment.ms": "6", "retention.ms": "5"})

    assert first is second


async def test_checks_name_every_fault_with_kafkas_code(home: ServicesOnDisk) -> None:
    """INVALID_CONFIG for topics, INVALID_REQUEST for brokers."""
    with pytest.raises(InvalidConfig) as topic:
        home.services.settings.check_topic("t", {"retention.ms": "x", "retention.mss": "1"})
    with pytest.raises(InvalidRequest) as broker:
        home.services.settings.check_dynamic({"node.id": "5"}, cluster=False)

    assert "retention.ms is x" in topic.value.message
    assert "did you mean retention.ms?" in topic.value.message
    assert "node.id" in broker.value.message


async def test_settings_without_meaning_here_are_kept_with_a_line(
    home: ServicesOnDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka knows them, so tools may set them."""
    for text in ("*", "", "0:1", "0:1, 1:1,"):
        home.services.settings.check_topic("t", {"follower.replication.throttled.replicas": text})

    assert "has no meaning here" in caplog.text


async def test_consumer_groups_obey_at_once(home: ServicesOnDisk) -> None:
    """Kafka alters the interval between their assignments while it runs."""
    settings = home.services.settings
    policies = GroupPolicies(settings)
    before = policies.of("g").assignment_interval_ms
    await settings.alter(cluster={"group.consumer.assignment.interval.ms": "1500"})
    for_all = policies.of("g").assignment_interval_ms
    await settings.alter(broker={"group.consumer.assignment.interval.ms": "2000"})

    assert (before, for_all, policies.of("g").assignment_interval_ms) == (1000, 1500, 2000)
