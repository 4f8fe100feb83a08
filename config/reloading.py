"""The changes of a reload: now, at a restart, or hidden by a dynamic value.

One rule holds for SIGHUP, `siltstone reload` and `siltstone diff`. The sources are read as at a
start. A setting that the running broker obeys at once gets its new value; any other setting keeps
the value with which the broker started. Dynamic values win over both, as always.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from siltstone.config.checks import ADVERTISED, advertising_faults, contradictions, resize_faults
from siltstone.config.errors import ConfigError
from siltstone.config.keys import Setting
from siltstone.config.known import default_of, find_setting
from siltstone.config.layers import Layers, may_alter
from siltstone.config.security import parse_name
from siltstone.config.table import BROKER, OTHER_NAMES, SYNONYMS, names_of, synonyms_of
from siltstone.config.values import parse

HIDDEN = "(hidden)"


class Difference(NamedTuple):
    """One setting with two values as readable text; None stands for no value."""

    name: str
    old: str | None
    new: str | None
    source: str


class Shadowed(NamedTuple):
    """A given value that has no effect, since a dynamic value wins."""

    name: str
    value: str | None
    source: str
    wins: str
    winner: str | None
    winner_source: str


class Plan(NamedTuple):
    """The effect of a reload; ``layers`` are in force after the reload."""

    layers: Layers
    now: tuple[Difference, ...]
    restart: tuple[Difference, ...]
    shadowed: tuple[Shadowed, ...]


def may_change(name: str) -> bool:
    """Tell whether a value from the file takes effect without a restart.

    Every broker setting that gives a default for topics does, even log.retention.hours; Kafka
    alters only the setting in milliseconds. A setting without effect here is only shown, so it may
    change, too.
    """
    of_listener = parse_name(name)
    if of_listener is not None:
        return may_alter(of_listener)
    setting = BROKER.get(name)
    return setting is None or setting.dynamic or name in SYNONYMS


def make_plan(current: Layers, fresh: Layers) -> Plan:
    """Return the effect of a reload that changes the current layers to the fresh ones.

    Raises:
        ConfigError: the values that can change now contradict each other or the rest; has every
            fault.
    """
    kept = {name: given for name, given in current.static.items() if not may_change(name)}
    taken = {name: given for name, given in fresh.static.items() if may_change(name)}
    # A value that stays the same may have moved to another line.
    kept = {
        name: fresh.static[name] if _is_same(name, current, fresh) else given
        for name, given in kept.items()
    }
    after = replace(current, static=kept | taken, warnings=fresh.warnings)
    if advertising_faults(after.server()):  # the value is for listeners that only a restart opens
        given = current.static.get(ADVERTISED)
        others = {name: each for name, each in after.static.items() if name != ADVERTISED}
        after = replace(after, static=others | ({} if given is None else {ADVERTISED: given}))
    faults = contradictions(after.server().topic_defaults, after.server())
    faults += resize_faults(current.server(), after.server())
    if faults:
        raise ConfigError(faults)
    restarted = replace(current, static=fresh.static)
    return Plan(
        after,
        tuple(find_differences(current, after)),
        tuple(find_differences(after, restarted)),
        tuple(_find_shadowed(restarted)),
    )


def _is_same(name: str, current: Layers, fresh: Layers) -> bool:
    other = fresh.static.get(name)
    return other is not None and other.value == current.static[name].value


def find_differences(before: Layers, after: Layers) -> Iterator[Difference]:
    """Yield every setting whose value in force differs, by name; secrets are hidden."""
    for name in sorted(_given(before) | _given(after)):
        if name not in OTHER_NAMES and _value(before, name) != _value(after, name):
            yield Difference(name, shown(before, name), shown(after, name), after.where(name))


def _given(layers: Layers) -> set[str]:
    return {*layers.static, *layers.cluster, *layers.broker}


def _value(layers: Layers, name: str) -> object:
    """Return a value that is equal for equal settings."""
    setting = BROKER.get(name)
    text = layers.value(name)
    if setting is None:
        return text
    return setting.default if text is None else parse(setting.kind, text)


def shown(layers: Layers, name: str) -> str | None:
    """Return the value in force as text; a value that is or may be a secret is hidden."""
    setting = find_setting(name)
    text = layers.value(name)
    if text is None:
        return default_of(setting) if isinstance(setting, Setting) else None
    return HIDDEN if setting is None or setting.kind.is_sensitive else text


def _find_shadowed(layers: Layers) -> Iterator[Shadowed]:
    only_static = replace(layers, cluster={}, broker={})
    for winner in sorted({*layers.cluster, *layers.broker}):
        for name in _all_names(winner):
            if name in layers.static and name not in OTHER_NAMES:
                yield Shadowed(
                    name,
                    shown(only_static, name),
                    layers.static[name].where,
                    winner,
                    shown(layers, winner),
                    layers.where(winner),
                )


def _all_names(name: str) -> Iterable[str]:
    """Return a setting's names from this name on: a value by a later name loses."""
    if name not in BROKER:
        return (name,)
    names = synonyms_of(name) if name in SYNONYMS else names_of(BROKER[name])
    return names[names.index(name) :]
