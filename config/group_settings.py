"""The settings of one group: its own within the broker's bounds, and the broker's for the rest.

A value out of bounds is refused when it is set. If the bounds change later, they limit the value
when it is used (Kafka: GroupConfig, GroupConfigManager).
"""

from collections.abc import Mapping

from siltstone.config.consumer_groups import GroupConfig
from siltstone.config.describe import ConfigRow, Synonym, broker_synonyms, make_row
from siltstone.config.errors import ConfigError
from siltstone.config.keys import Setting, settings_of
from siltstone.config.layers import Layers, Source, checked
from siltstone.config.server import ServerConfig
from siltstone.config.values import text_of

GROUP: dict[str, Setting] = settings_of(GroupConfig)
_CONSUMER = "consumer_"


def effective_group(server: ServerConfig, own: Mapping[str, str]) -> GroupConfig:
    """Return the settings of a group; own values that are no longer valid are ignored."""
    values = {}
    for name, setting in GROUP.items():
        value = getattr(server, f"group_{setting.attribute}")
        if name in own:
            faults: list[str] = []
            given = checked(setting, own[name], "", faults)
            low, high = server.group_consumer_bounds(setting.attribute.removeprefix(_CONSUMER))
            value = value if faults else min(max(given, low), high)
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
        low, high = server.group_consumer_bounds(setting.attribute.removeprefix(_CONSUMER))
        if len(faults) == found and not low <= value <= high:
            faults.append(f"{name} is {text}; the broker allows {low} to {high}")
    if not faults:
        group = effective_group(server, own)
        if group.consumer_session_timeout_ms <= group.consumer_heartbeat_interval_ms:
            faults.append("consumer.session.timeout.ms must exceed consumer.heartbeat.interval.ms")
    if faults:
        raise ConfigError(faults)


def describe_group(layers: Layers, own: Mapping[str, str]) -> list[ConfigRow]:
    """Return every setting of a group by name, with its broker settings as synonyms."""
    group = effective_group(layers.server(), own)
    rows = []
    for name, setting in sorted(GROUP.items()):
        value = text_of(setting.kind, getattr(group, setting.attribute))
        synonyms = broker_synonyms(layers, setting.synonyms[0])
        if name in own:
            synonyms = (Synonym(name, value, Source.GROUP), *synonyms)
        where = "group" if name in own else layers.where(setting.synonyms[0])
        rows.append(make_row(setting, value, synonyms, where))
    return rows
