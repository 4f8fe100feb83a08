"""The settings with which a broker starts, from file, environment and command line.

All faults of these sources are reported together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from siltstone.config.checks import contradictions, start_faults
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Given, Layers, Origin, advice, checked
from siltstone.config.listeners import names_in
from siltstone.config.naming import unknown_broker_setting
from siltstone.config.security import check_value, parse_name
from siltstone.config.sources import Entry, environment_entries, set_entries
from siltstone.config.table import BROKER, SERVER, TOPIC

_IMAGES_PREFIX = "KAFKA_"
_CHECKED_TOGETHER = frozenset(
    name
    for name in BROKER
    if "listener" in name or name.startswith(("log.cleaner.", "sasl.", "ssl.", "http."))
)


def load(path: Path | None, environ: Mapping[str, str], sets: Sequence[str]) -> Layers:
    """Return the layers from the file, the environment and `--set`; the later of these wins.

    This reads the file, and may ask the resolver for this machine's name if the name is to be
    advertised.

    Raises:
        ConfigError: settings are wrong; the error has every fault with its place.
    """
    faults: list[str] = []
    warnings: list[str] = []
    given_last = [*environment_entries(environ, faults), *set_entries(sets, faults)]
    over = [*_kafka_entries(environ, given_last, faults, warnings), *given_last]
    in_file = _file_entries(path, faults, warnings) if path is not None else []
    in_file = _without_outranked(in_file, over, warnings)
    entries = [*_without_replaced(in_file, over, warnings), *over]
    faulty = {entry.name for entry in entries if _is_faulty(entry, faults, warnings)}
    given = {
        entry.name: Given(entry.text, entry.where) for entry in entries if entry.name not in faulty
    }
    faults += _disagreeing_ids(given)
    warnings += _shadowed(given)
    layers = Layers(static=_other_names(given) | given)
    warnings += _left_out(layers)
    warnings += _one_copy(entries, faulty)
    if faulty.isdisjoint(_CHECKED_TOGETHER) and not any(map(parse_name, faulty)):
        faults += _start_faults(layers)
    if faults:
        raise ConfigError(faults)
    origin = Origin(None if path is None else path.absolute(), environ, tuple(sets))
    return replace(layers, warnings=tuple(warnings), origin=origin)


def load_again(layers: Layers) -> Layers:
    """Read the sources of these layers again, and return the result without dynamic values.

    Raises:
        ConfigError: settings are wrong; the error has every fault with its place.
    """
    if layers.origin is None:
        raise ConfigError(["these settings came from no file, and cannot be read again"])
    return load(*layers.origin)


def _left_out(layers: Layers) -> Iterable[str]:
    """Warn that a controller's listeners, which Kafka's own configurations have, are not opened."""
    names = layers.server().controllers_listeners
    if names:
        where = layers.where("listeners")
        yield (
            f"{where}: {', '.join(names)} in listeners is not opened: it is a controller's, and "
            "one node needs none"
        )


def _one_copy(entries: Iterable[Entry], faulty: set[str]) -> Iterable[str]:
    """Warn in one line that settings for several replicas have no effect with one broker."""
    asking = {each.name: each for each in entries if each.name not in faulty and _asks_copies(each)}
    if asking:
        where = next(iter(asking.values())).where
        told = ", ".join(f"{name}={each.text}" for name, each in asking.items())
        yield (
            f"{where}: {told}: this broker is alone, so that a topic has one copy, which acks=all "
            "waits for; a disk that is lost takes it along: see siltstone backup"
        )


def _asks_copies(entry: Entry) -> bool:
    """Tell whether a setting asks for more than one replica, or waits for more than one."""
    text = entry.text.strip()
    return entry.name in _OF_REPLICAS and text.isascii() and text.isdigit() and int(text) > 1


_OF_REPLICAS = frozenset({
    "default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr", "transaction.state.log.replication.factor",
})  # fmt: skip


def _kafka_entries(
    environ: Mapping[str, str], over: list[Entry], faults: list[str], warnings: list[str]
) -> list[Entry]:
    """Return the settings from variables of Apache Kafka's image that ours do not override."""
    if not any(name.startswith("KAFKA_") or name == "CLUSTER_ID" for name in environ):
        return []
    from siltstone.config import kafka_variables  # noqa: PLC0415 - few starts have any

    entries = kafka_variables.kafka_entries(environ, faults, warnings)
    ours = [each for each in over if each.where != "--set"]  # a value of --set wins on purpose
    faults += kafka_variables.contradictions(entries, ours)
    listeners = kafka_variables.derived_listeners(entries, over)
    return entries if listeners is None else [*entries, listeners]


def _without_outranked(in_file: list[Entry], over: list[Entry], warnings: list[str]) -> list[Entry]:
    """Return a file's settings without values that a variable or `--set` gives by another name.

    Among the names of a setting in one source the first of a chain wins, such as log.retention.ms
    over log.retention.hours; but a variable wins over a file whichever name it uses.
    """
    given = {each.name: each.where for each in over}
    outranked: dict[str, str] = {}
    for chain in _chains():
        first = next((name for name in chain if name in given), None)
        if first is not None and first not in SERVER:
            outranked |= {
                name: f"{given[first]} gives {first}" for name in chain if name not in given
            }
    gone = [each for each in in_file if each.name in outranked]
    warnings += (
        f"{each.where}: {each.name} has no effect, because {outranked[each.name]}" for each in gone
    )
    return [each for each in in_file if each not in gone]


def _without_replaced(in_file: list[Entry], over: list[Entry], warnings: list[str]) -> list[Entry]:
    """Return a file's settings without its advertised addresses for listeners that are replaced.

    This is for files like the image's: a variable that sets the listeners again must not keep the
    file's advertised addresses. A compose file for Kafka that binds a listener on all interfaces,
    by leaving out its host, expects this machine's name to be advertised, as Kafka does.
    """
    bound, told = (_last(in_file, name) for name in ("listeners", "advertised.listeners"))
    last = _last(over, "listeners")
    if bound is None or told is None or last is None or _last(over, told.name) is not None:
        return in_file
    gone = names_in(bound.text) - names_in(last.text)
    if last.where.startswith(_IMAGES_PREFIX):
        gone |= {name for each in last.text.split(",") if "://:" in each for name in names_in(each)}
    kept = [each for each in told.text.split(",") if names_in(each).isdisjoint(gone)]
    left_out = gone & names_in(told.text)
    if not left_out:
        return in_file
    warnings.append(
        f"{told.where}: {', '.join(sorted(left_out))} in advertised.listeners is left out: "
        f"{last.where} replaces the listeners of the file"
    )
    rest = [each for each in in_file if each.name != told.name]
    return [*rest, told._replace(text=",".join(kept))] if kept else rest


def _last(entries: Iterable[Entry], name: str) -> Entry | None:
    return next((each for each in reversed([*entries]) if each.name == name), None)


def _file_entries(path: Path, faults: list[str], warnings: list[str]) -> list[Entry]:
    if path.suffix == ".properties":
        from siltstone.config.properties import properties_entries  # noqa: PLC0415 - as below

        return properties_entries(path, faults, warnings)
    from siltstone.config.file import file_entries  # noqa: PLC0415 - brings YAML, which few starts need

    return file_entries(path, faults)


def _is_faulty(entry: Entry, faults: list[str], warnings: list[str]) -> bool:
    before = len(faults)
    setting = BROKER.get(entry.name)
    of_listener = parse_name(entry.name)
    if of_listener is not None:
        try:
            check_value(of_listener, entry.text)
        except ValueError as error:
            # The text may be a secret.
            faults.append(f"{entry.where}: {entry.name} must be {error}")
    elif setting is None:
        unheard: list[str] = []  # `_one_copy` has one line for all of these
        kept = unheard if _asks_copies(entry) else warnings
        unknown_broker_setting(entry.name, entry.text, entry.where, faults, kept)
    else:
        value = checked(setting, entry.text, entry.where, faults)
        warnings += (f"{entry.where}: {words}" for words in advice(setting, value, entry.text))
    return len(faults) > before


def _start_faults(layers: Layers) -> list[str]:
    server = layers.server()
    faults = contradictions(server.topic_defaults, server)
    for name, fault in start_faults(server):
        where = layers.where(name)
        faults.append(fault if where == "default" else f"{where}: {fault}")
    return faults


def _disagreeing_ids(given: Mapping[str, Given]) -> Iterable[str]:
    ids = [given[name] for name in ("node.id", "broker.id") if name in given]
    if len({int(each.value) for each in ids}) > 1:
        yield f"{ids[1].where}: broker.id is not what node.id says ({ids[0].where}); remove one"


def _other_names(given: Mapping[str, Given]) -> dict[str, Given]:
    """Return the values that are given by a setting's other names, under its usual name."""
    return {
        setting.name: given[other]
        for setting in SERVER.values()
        for other in setting.synonyms
        if other in given
    }


def _chains() -> Iterable[tuple[str, ...]]:
    """Yield the names of each setting of the broker; the first name that is given counts."""
    yield from (setting.synonyms for setting in TOPIC.values())
    yield from ((setting.name, *setting.synonyms) for setting in SERVER.values())


def _shadowed(given: Mapping[str, Given]) -> Iterable[str]:
    """Yield a warning for each value that is overridden by another name of the same setting."""
    for chain in _chains():
        first, *others = [name for name in chain if name in given] or [""]
        for name in others:
            if name not in SERVER:
                yield f"{given[name].where}: {name} has no effect, because {first} is set too"
