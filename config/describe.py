"""Settings as rows: for DescribeConfigs, `siltstone config` and the documents.

The synonyms of a row are those of Kafka's ConfigHelper: first the topic's own value, then, layer by
layer, the broker settings that give its default. A layer's synonyms begin with the setting of the
same name, so `retention.ms` does not show `log.retention.hours` while `log.retention.ms` is not
set.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, dropwhile
from typing import Any, NamedTuple

from siltstone.config.errors import ConfigError
from siltstone.config.keys import Kind, Setting
from siltstone.config.known import (
    Known,
    broker_synonym,
    default_of,
    find_setting,
    known_broker,
    known_settings,
    known_topic,
)
from siltstone.config.layers import Layers, Source, checked, may_alter
from siltstone.config.security import parse_name
from siltstone.config.table import BROKER, OBEYED, TOPIC, counting_name, names_of, synonyms_of
from siltstone.config.values import parse, text_of

_KEPT = "A setting of Apache Kafka that is kept here and has no effect."
_OF_LOGINS = "How its clients log in: users and their passwords, or how tokens are checked."


class Synonym(NamedTuple):
    """One place that could give a value; a list of synonyms begins with the place that wins."""

    name: str
    value: str | None
    source: Source


class ConfigRow(NamedTuple):
    """One setting as DescribeConfigs answers it, with the place of its value in words."""

    name: str
    value: str | None
    type: Kind
    default: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    documentation: str
    where: str


def describe_topic(layers: Layers, overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Return every setting of a topic by name, including those that have no effect here.

    Raises:
        ConfigError: one of the topic's own values does not parse.
    """
    faults: list[str] = []
    rows = dict(_topic_defaults(layers))
    for name, text in overrides.items():
        setting = OBEYED.get(name)
        if setting is not None:
            row = rows.get(name) or make_row(setting, None, (), "default")
            value = text_of(setting.kind, checked(setting, text, "", faults))
            rows[name] = _overridden(row, value)
        elif (known := known_topic(name)) is not None:
            row = rows.get(name) or _known_topic_row(layers, known)
            rows[name] = _overridden(row, text.strip())
    if faults:
        raise ConfigError(faults)
    return [rows[name] for name in sorted(rows)]


@lru_cache(maxsize=2)
def _topic_defaults(layers: Layers) -> dict[str, ConfigRow]:
    """Return the rows of a topic without own settings; thousands of topics share them."""
    config = layers.topic()
    rows = {}
    for name, setting in TOPIC.items():
        value = text_of(setting.kind, getattr(config, setting.attribute))
        first = setting.synonyms[:1]
        synonyms = tuple(chain.from_iterable(broker_synonyms(layers, each) for each in first))
        where = _where(layers, setting.synonyms)
        rows[name] = make_row(setting, value, synonyms, where)
    for name, known in known_settings("topic").items():
        if name not in TOPIC and known.status == "current":
            rows[name] = _known_topic_row(layers, known)
    return rows


def _overridden(row: ConfigRow, value: str | None) -> ConfigRow:
    synonyms = (Synonym(row.name, value, Source.TOPIC), *row.synonyms)
    return row._replace(value=value, synonyms=synonyms, source=Source.TOPIC, where="topic")


def describe_broker(layers: Layers) -> list[ConfigRow]:
    """Return every setting of the broker by name, and given settings that have no effect here."""
    return _describe_some(layers, BROKER)


def _describe_some(layers: Layers, names: Container[str]) -> list[ConfigRow]:
    """Return the settings of these names, and given settings that have no effect here, by name."""
    rows = []
    for name, setting in BROKER.items():
        if name not in names:
            continue
        value = _broker_value(layers, setting)
        synonyms = broker_synonyms(layers, name)
        where = _where(layers, names_of(setting))
        rows.append(make_row(setting, value, synonyms, where, read_only=not setting.dynamic))
    for name in {*layers.static, *layers.cluster, *layers.broker} - BROKER.keys():
        known = known_broker(name)
        if known is not None:
            rows.append(_known_broker_row(layers, known))
    return sorted(rows)


def describe_cluster_default(layers: Layers) -> list[ConfigRow]:
    """Return the dynamic settings for all brokers, by name."""
    if not layers.cluster:
        return []
    rows = _describe_some(Layers(cluster=layers.cluster), layers.cluster)
    return [
        row._replace(
            synonyms=tuple(each for each in row.synonyms if each.source is Source.DYNAMIC_DEFAULT)
        )
        for row in rows
    ]


def make_row(
    setting: Setting | Known,
    value: str | None,
    synonyms: tuple[Synonym, ...],
    where: str,
    *,
    read_only: bool = False,
) -> ConfigRow:
    """Return the row of a setting; the first synonym tells the source of its value."""
    is_secret = setting.kind.is_sensitive
    return ConfigRow(
        name=setting.name,
        value=None if is_secret else value,
        type=setting.kind,
        default=default_of(setting),
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        read_only=read_only,
        sensitive=is_secret,
        synonyms=synonyms,
        documentation=_words_of(setting),
        where=where,
    )


def _known_topic_row(layers: Layers, known: Known) -> ConfigRow:
    synonym = broker_synonym(known.name)
    synonyms = () if synonym is None else broker_synonyms(layers, synonym)
    value = synonyms[0].value if synonyms else known.default
    where = _where(layers, () if synonym is None else (synonym,))
    return make_row(known, value, synonyms, where)


def _known_broker_row(layers: Layers, known: Known) -> ConfigRow:
    synonyms = broker_synonyms(layers, known.name)
    parts = parse_name(known.name)
    read_only = known.alterable == "-" if parts is None else not may_alter(parts)
    value = layers.value(known.name)
    return make_row(known, value, synonyms, layers.where(known.name), read_only=read_only)


def _words_of(setting: Setting | Known) -> str:
    """Return the description of a setting, which may be one of a single listener."""
    if isinstance(setting, Setting):
        return setting.documentation
    parts = parse_name(setting.name)
    if parts is None:
        return _KEPT
    of_all = BROKER.get(parts.setting)
    words = _OF_LOGINS if of_all is None else of_all.documentation
    return f"Of the listener {parts.listener} alone. {words}"


def broker_synonyms(layers: Layers, name: str) -> tuple[Synonym, ...]:
    """Return the places that may give the value of a broker setting; the first place wins."""
    found = _all_synonyms(layers, synonyms_of(name))
    return tuple(dropwhile(lambda synonym: synonym.name != name, found))


def _all_synonyms(layers: Layers, names: tuple[str, ...]) -> Iterator[Synonym]:
    for source, values in (
        (Source.DYNAMIC_BROKER, layers.broker),
        (Source.DYNAMIC_DEFAULT, layers.cluster),
    ):
        for name in names:
            if name in values:
                yield Synonym(name, _unless_secret(name, values[name]), source)
    for name in names:
        if name in layers.static:
            yield Synonym(name, _unless_secret(name, layers.static[name].value), Source.STATIC)
    for name in names:
        default = _default(name)
        if default is not None:
            yield Synonym(name, default, Source.DEFAULT)


def _unless_secret(name: str, text: str) -> str | None:
    setting = find_setting(name)
    return None if setting is not None and setting.kind.is_sensitive else text


def _default(name: str) -> str | None:
    setting = find_setting(name)
    return None if setting is None or setting.kind.is_sensitive else default_of(setting)


def _broker_value(layers: Layers, setting: Setting) -> str | None:
    if setting.attribute:
        return text_of(setting.kind, setting.value_in(layers.server()))
    text = layers.value(setting.name)
    value = setting.default if text is None else parse(setting.kind, text)
    return text_of(setting.kind, value)


def _where(layers: Layers, names: Iterable[str]) -> str:
    given = next((name for name in names if layers.value(name) is not None), None)
    return "default" if given is None else layers.where(given)


class Place(NamedTuple):
    """The place of the value of a topic's setting: its name and a description."""

    name: str
    source: Source
    where: str


def find_place(layers: Layers, overrides: Mapping[str, str], name: str) -> Place:
    """Return the place of the value of one topic setting; cheap."""
    name = counting_name(name, overrides)
    if name in overrides:
        return Place(name, Source.TOPIC, "topic")
    for synonym in TOPIC[name].synonyms:
        if layers.value(synonym) is not None:
            return Place(synonym, _source_of(layers, synonym), layers.where(synonym))
    return Place(name, Source.DEFAULT, "default")


def find_broker_place(layers: Layers, name: str) -> Place:
    """Return the place of the value of a broker setting."""
    if layers.value(name) is None:
        return Place(name, Source.DEFAULT, "default")
    return Place(name, _source_of(layers, name), layers.where(name))


def _source_of(layers: Layers, name: str) -> Source:
    if name in layers.broker:
        return Source.DYNAMIC_BROKER
    return Source.DYNAMIC_DEFAULT if name in layers.cluster else Source.STATIC


def show(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line, as `siltstone config` prints it, for each setting of `show_as_json`."""
    for row in rows:
        value = "(none)" if row["value"] is None else row["value"]
        yield f"{row['name']} = {'(hidden)' if row['hidden'] else value}  ({row['source']})"


def show_as_json(layers: Layers) -> Iterator[dict[str, Any]]:
    """Yield each setting as JSON values, by name; secrets are left out."""
    yield from map(as_json, describe_broker(layers))


def as_json(row: ConfigRow) -> dict[str, Any]:
    """Return a setting as JSON values, a secret without its value."""
    return {
        "name": row.name,
        "value": None if row.sensitive else row.value,
        "source": row.where,
        "default": row.default,
        "dynamic": not row.read_only,
        "hidden": row.sensitive,
    }
