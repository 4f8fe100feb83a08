"""Settings that are read again in the running broker: what is in force, and what the log says."""

import asyncio
import logging
from pathlib import Path

import pytest

from siltstone.broker.reload import SettingsFile, reload
from siltstone.broker.server import Broker
from siltstone.config.errors import ConfigError
from siltstone.config.load import load
from siltstone.storage.clock import Clock


class Home:
    """A broker that was built and not started, and the file of its settings."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "server.yaml"
        self._always = f"log.dirs: {folder}\n"
        self.write("")
        self.broker = Broker(load(self.file, {}, []), Clock(), asyncio.Event())
        self.settings = self.broker._settings

    def write(self, text: str) -> None:
        """Replace the file."""
        self.file.write_text(self._always + text)


async def test_defaults_of_topics_count_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line has old, new and source; a warning about the file is said once."""
    home = Home(tmp_path)
    home.write("log.retention.ms: 5000\nbackground.threads: 3\n")

    with caplog.at_level(logging.INFO):
        await home.broker.reload()
        await home.broker.reload()

    assert home.settings.topic_config({}).retention_ms == 5000
    assert caplog.text.count("setting changed name=log.retention.ms old=None new=5000 source=") == 1
    assert caplog.text.count("background.threads is a setting of Apache Kafka; it is kept") == 1
    assert caplog.text.count("settings reloaded") == 2


async def test_a_faulty_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even what is right in it."""
    home = Home(tmp_path)
    before = home.settings.layers
    home.write("log.retention.ms: 5000\nmax.connections: some\n")

    await home.broker.reload()

    assert home.settings.layers is before
    assert "nothing has changed: " in caplog.text
    assert "max.connections is some; it must be" in caplog.text


async def test_a_change_by_a_client_leaves_the_same_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No matter what changed it: the rule for what is logged is one."""
    home = Home(tmp_path)

    with caplog.at_level(logging.INFO):
        await home.settings.alter(cluster={"max.connections": "9"})

    assert (
        "setting changed name=max.connections old=2147483647 new=9 "
        "source='dynamic for all brokers'" in caplog.text
    )


async def test_a_broker_without_sources_says_so(tmp_path: Path) -> None:
    """As tests and tools build it: there is nothing to read again."""
    home = Home(tmp_path)
    layers = load(home.file, {}, [])
    object.__setattr__(layers, "origin", None)
    broker = Broker(layers, Clock(), asyncio.Event())
    with pytest.raises(ConfigError, match="came from no file"):
        await reload(broker._settings, broker._io)


async def test_a_changed_file_is_told_when_it_has_settled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says how many settings would change; nothing has changed yet."""
    home = Home(tmp_path)
    watched = SettingsFile(home.file, home.settings, home.broker._io)
    home.write("log.retention.ms: 5000\nnode.id: 7\n")

    with caplog.at_level(logging.INFO):
        await watched.look()
        assert "has changed" not in caplog.text
        await watched.look()
        await watched.look()

    assert caplog.text.count("settings file has changed, siltstone diff shows how") == 1
    assert f"path={home.file} now=1 restart=1" in caplog.text
    assert home.settings.topic_config({}).retention_ms == 604_800_000


async def test_a_changed_file_with_a_fault_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault is in the log before anybody asks for a reload; also when the file goes."""
    home = Home(tmp_path)
    watched = SettingsFile(home.file, home.settings, home.broker._io)
    home.write("log.retention.ms: soon\n")
    await watched.look()
    await watched.look()
    home.file.unlink()
    await watched.look()
    await watched.look()

    assert "a reload would change nothing: " in caplog.text
    assert "log.retention.ms is soon; it must be" in caplog.text
    assert "cannot be read: No such file or directory" in caplog.text


async def test_a_changed_file_is_taken_if_that_is_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by SIGHUP: what may change is in force, and a faulty file changes nothing."""
    home = Home(tmp_path)
    home.write("config.reload.on.change: true\n")
    await home.broker.reload()
    watched = SettingsFile(home.file, home.settings, home.broker._io)
    home.write("config.reload.on.change: true\nlog.retention.ms: 5000\n")
    await watched.look()
    await watched.look()
    taken = home.settings.layers
    home.write("config.reload.on.change: true\nlog.retention.ms: no\n")
    await watched.look()
    await watched.look()

    assert home.settings.topic_config({}).retention_ms == 5000
    assert home.settings.layers is taken
    assert "settings are not reloaded, nothing has changed: " in caplog.text
