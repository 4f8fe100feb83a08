"""The settings of one group: its own within the broker's bounds, and the broker's for the rest.

A value out of bounds is refused when it is set. If the bounds change later, they limit the value
when it is used (Kafka: GroupConfig, GroupConfigManager).
"""

from collections.abc import Mapping
from typing import Any

from siltstone.config.consumer_groups import GROUP, GroupConfig
from siltstone.config.describe import ConfigRow, Synonym, broker_synonyms, make_row
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Layers, Source, checked
from siltstone.config.server import ServerConfig
from siltstone.config.values import text_of

_KINDS = ("consumer", "share", "streams")


def effective_group(server: ServerConfig, own: Mapping[str, str]) -> GroupConfig:
    """Return the settings of a group; own values that are no longer valid are ignored."""
    values = {}
    for name, setting in GROUP.items():
        value = setting.default
        if setting.synonyms:
            value = getattr(server, f"group_{setting.attribute}")
        if name in own:
            faults: list[str] = []
            given = checked(setting, own[name], "", faults)
            value = value if faults else _within(given, server.group_bounds(setting.attribute))
        values[setting.attribute] = value
    return GroupConfig(**values)


def check_group(server: ServerConfig, own: Mapping[str, str]) -> None:
    """Check all of a group's new own values together.

    Raises:
        ConfigError: a name is unknown, or a value is bad or out of bounds; the error has every
            fault.
    """
    faults: list[str] = []
    for name, text in own.items():
        setting = GROUP.get(name)
        if setting is None:
            faults.append(f"{name} is no setting of a group; there are {', '.join(GROUP)}")
            continue
        found = len(faults)
        value = checked(setting, text, "", faults)
        bounds = server.group_bounds(setting.attribute)
        if len(faults) == found and bounds and value != _within(value, bounds):
            faults.append(f"{name} is {text}; the broker allows {bounds[0]} to {bounds[1]}")
    if not faults:
        faults += _session_faults(effective_group(server, own))
    if faults:
        raise ConfigError(faults)


def _within(value: Any, bounds: tuple[int, int] | None) -> Any:
    return value if bounds is None else min(max(value, bounds[0]), bounds[1])


def _session_faults(group: GroupConfig) -> list[str]:
    return [
        f"{kind}.session.timeout.ms must exceed {kind}.heartbeat.interval.ms"
        for kind in _KINDS
        if getattr(group, f"{kind}_session_timeout_ms")
        <= getattr(group, f"{kind}_heartbeat_interval_ms")
    ]


def describe_group(layers: Layers, own: Mapping[str, str]) -> list[ConfigRow]:
    """Return every setting of a group by name, with its broker settings as synonyms."""
    group = effective_group(layers.server(), own)
    rows = []
    for name, setting in sorted(GROUP.items()):
        value = text_of(setting.kind, getattr(group, setting.attribute))
        synonyms: tuple[Synonym, ...] = (Synonym(name, value, Source.DEFAULT),)
        where = "default"
        for broker_name in setting.synonyms:
            synonyms, where = broker_synonyms(layers, broker_name), layers.where(broker_name)
        if name in own:
            synonyms, where = (Synonym(name, value, Source.GROUP), *synonyms), "group"
        rows.append(make_row(setting, value, synonyms, where))
    return rows
