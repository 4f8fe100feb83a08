"""Changes by reading the settings again: now, at a restart, or not while a dynamic one wins.

One rule for SIGHUP, `siltstone reload` and `siltstone diff`. The sources are read as a start reads
them; a setting that the running broker obeys at once takes its new value, any other keeps the one
that the broker started with. Dynamic values lie over both, as always.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from siltstone.config.checks import ADVERTISED, advertising_faults, contradictions, resize_faults
from siltstone.config.errors import ConfigError
from siltstone.config.keys import Kind
from siltstone.config.known import known_broker
from siltstone.config.layers import Layers, may_alter
from siltstone.config.security import parse_name
from siltstone.config.table import BROKER, OTHER_NAMES, SYNONYMS, names_of, synonyms_of
from siltstone.config.values import parse, text_of

HIDDEN = "(hidden)"


class Difference(NamedTuple):
    """One setting with two values, as text for a person; None where it has no value."""

    name: str
    old: str | None
    new: str | None
    source: str


class Shadowed(NamedTuple):
    """A value that is given and does not count, since a dynamic one wins."""

    name: str
    value: str | None
    source: str
    wins: str
    winner: str | None
    winner_source: str


class Plan(NamedTuple):
    """The effect of a reload: ``layers`` are in force after it."""

    layers: Layers
    now: tuple[Difference, ...]
    restart: tuple[Difference, ...]
    shadowed: tuple[Shadowed, ...]


def may_change(name: str) -> bool:
    """Tell whether a value from the file counts without a restart.

    Every broker setting that gives a default of topics does, log.retention.hours too; Kafka alters
    only the one in milliseconds. What has no meaning here is only shown, so it may.
    """
    of_listener = parse_name(name)
    if of_listener is not None:
        return may_alter(of_listener)
    setting = BROKER.get(name)
    return setting is None or setting.dynamic or name in SYNONYMS


def make_plan(current: Layers, fresh: Layers) -> Plan:
    """Return what becomes of the current layers when the sources say what the fresh ones hold.

    Raises:
        ConfigError: with every fault: what can be changed now contradicts itself or the rest.
    """
    kept = {name: given for name, given in current.static.items() if not may_change(name)}
    taken = {name: given for name, given in fresh.static.items() if may_change(name)}
    # What stays the same may have gone to another line.
    kept = {
        name: fresh.static[name] if _is_same(name, current, fresh) else given
        for name, given in kept.items()
    }
    after = replace(current, static=kept | taken, warnings=fresh.warnings)
    if advertising_faults(after.server()):  # it is for listeners that only a restart opens
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
    """Yield every setting that counts differently, by name; secrets are hidden."""
    for name in sorted(_given(before) | _given(after)):
        if name not in OTHER_NAMES and _value(before, name) != _value(after, name):
            yield Difference(name, shown(before, name), shown(after, name), after.where(name))


def _given(layers: Layers) -> set[str]:
    return {*layers.static, *layers.cluster, *layers.broker}


def _value(layers: Layers, name: str) -> object:
    """Return something that is equal for equal settings."""
    setting = BROKER.get(name)
    text = layers.value(name)
    if setting is None:
        return text
    return setting.default if text is None else parse(setting.kind, text)


def shown(layers: Layers, name: str) -> str | None:
    """Return the value that counts as text; what is, or may be, a secret is hidden."""
    setting = BROKER.get(name)
    text = layers.value(name)
    if setting is not None and setting.kind is Kind.PASSWORD:
        return None if text is None else HIDDEN
    if setting is not None:
        return text_of(setting.kind, setting.default) if text is None else text
    known = known_broker(name)
    if text is not None and (known is None or known.is_sensitive):
        return HIDDEN
    return text


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
    """Return a setting's names from this one on: those that lose against it."""
    if name not in BROKER:
        return (name,)
    names = synonyms_of(name) if name in SYNONYMS else names_of(BROKER[name])
    return names[names.index(name) :]
