"""The settings that Apache Kafka 4.4.0 knows, from `known.tsv`; most have no effect in this broker.

The table holds facts: level, name, type, default (null: no default), whether Kafka alters it while
it runs (cluster: also as the default of all brokers; broker: for one broker only), and status
(current, also of Kafka's own authorizer; internal: not documented; removed: existed before 4.0).
What `config.table` declares is obeyed and wins over a row here. The file is read when a name first
asks for it.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from siltstone.config.keys import Kind, Setting
from siltstone.config.table import BROKER
from siltstone.config.values import text_of

_LISTENER_PREFIX = "listener.name."
_PLUGIN_PREFIXES = ("config.providers.", "rsm.config.", "rlmm.config.")
_LOCAL = {
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
    "remote.copy.lag.ms": "log.remote.copy.lag.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


class Known(NamedTuple):
    """One setting of Apache Kafka; `default` is text as DescribeConfigs prints it."""

    name: str
    kind: Kind
    default: str | None
    alterable: str
    status: str


@cache
def known_settings(level: str) -> dict[str, Known]:
    """Return Kafka's settings of a level, topic or broker, by name."""
    text = Path(__file__).with_name("known.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {
        name: Known(name, Kind[kind], None if default == "null" else default, alterable, status)
        for row_level, name, kind, default, alterable, status in rows
        if row_level == level
    }


def known_topic(name: str) -> Known | None:
    """Return Kafka's topic setting of that name."""
    return known_settings("topic").get(name)


def known_broker(name: str) -> Known | None:
    """Return Kafka's broker setting of that name, also for one listener or for a plug-in.

    ``listener.name.NAME.X`` and ``listener.name.NAME.MECHANISM.X`` are known if X is. The settings
    of a plug-in are known by their prefix and are treated as secrets.
    """
    settings = known_settings("broker")
    if name in settings:
        return settings[name]
    if name.startswith(_PLUGIN_PREFIXES):
        return Known(name, Kind.UNKNOWN, None, "-", "current")
    base = settings.get(without_listener(name))
    return None if base is None else base._replace(name=name, default=None)


def find_setting(name: str) -> Setting | Known | None:
    """Return the broker setting of that name: the one that is obeyed, else Kafka's."""
    return BROKER.get(name) or known_broker(name)


def default_of(setting: Setting | Known) -> str | None:
    """Return the default as DescribeConfigs prints it."""
    if isinstance(setting, Known):
        return setting.default
    return text_of(setting.kind, setting.default)


def without_listener(name: str) -> str:
    """Return X for ``listener.name.NAME.X`` or ``listener.name.NAME.MECHANISM.X``.

    Any other name is returned unchanged.
    """
    listener, _, rest = name.removeprefix(_LISTENER_PREFIX).partition(".")
    if not name.startswith(_LISTENER_PREFIX) or not listener:
        return name
    settings = known_settings("broker")
    return next((each for each in (rest, rest.partition(".")[2]) if each in settings), name)


def broker_synonym(topic_setting: str) -> str | None:
    """Return the broker setting with the default of a topic setting that has no effect here."""
    return _LOCAL.get(topic_setting)
