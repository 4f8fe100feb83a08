"""The settings of both levels by Kafka's names, with the broker synonyms of topic settings.

A topic setting has a list of broker synonyms: the first one that is set wins, and the last one has
the default. Names that end in hours or minutes are converted (Kafka's ServerTopicConfigSynonyms).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from siltstone.config.keys import Kind, Setting, settings_of
from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig

_UNITS = {"hours": 3_600_000, "minutes": 60_000}


def unit(name: str) -> int:
    """Return the factor from the unit of a broker synonym to that of the topic setting."""
    return _UNITS.get(name.rpartition(".")[2], 1)


def topic_value(name: str, value: Any) -> Any:
    """Return the value of the topic setting that a broker synonym's value stands for.

    Kafka treats every negative duration as "no limit", in any unit.
    """
    if value is not None and name.endswith((".ms", ".hours", ".minutes")):
        return max(-1, value * unit(name))
    return value


def _topic_synonyms(setting: Setting) -> Iterator[Setting]:
    last = setting.synonyms[-1:]
    for name in setting.synonyms:
        scale = unit(name)
        words = f"Where a topic does not set {setting.name}. {setting.documentation}"
        yield Setting(
            name=name,
            attribute="",
            kind=setting.kind if scale == 1 else Kind.INT,
            default=_scaled(setting.default, scale) if name in last else None,
            documentation=words if scale == 1 else f"{words} In {name.rpartition('.')[2]}.",
            check=setting.synonym_check,
            advice=setting.advice,
            synonyms=setting.synonyms,
            dynamic=name == setting.synonyms[0],
        )


def _scaled(default: Any, scale: int) -> Any:
    return default if scale == 1 else default // scale


def _other_names(setting: Setting) -> Iterator[Setting]:
    for name in setting.synonyms:
        yield Setting(
            name=name,
            attribute=setting.attribute,
            kind=setting.kind,
            default=setting.default,
            documentation=f"Another name of {setting.name}, which wins where both are set.",
            check=setting.check,
        )


TOPIC: dict[str, Setting] = settings_of(TopicConfig)
INTERNAL_SEGMENT_BYTES: Setting = TOPIC["segment.bytes"]._replace(
    name="internal.segment.bytes",
    default=None,
    documentation="Wins over segment.bytes where a topic has it. Apache Kafka has it for tests, "
    "which want segments of less than 1 MiB; DescribeConfigs names it only where it is set.",
    advice=None,
    synonyms=(),
)
OBEYED: dict[str, Setting] = TOPIC | {INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES}
"""All that a topic may set and that counts here."""
SERVER: dict[str, Setting] = settings_of(ServerConfig)
OTHER_NAMES: dict[str, Setting] = {
    other.name: other for setting in SERVER.values() for other in _other_names(setting)
}
SYNONYMS: dict[str, Setting] = {
    synonym.name: synonym
    for setting in TOPIC.values()
    for synonym in _topic_synonyms(setting)
    if synonym.name not in SERVER
}
BROKER: dict[str, Setting] = SERVER | OTHER_NAMES | SYNONYMS


def names_of(setting: Setting) -> tuple[str, ...]:
    """Return all names of a broker setting; the first one that is given wins."""
    if not setting.attribute:
        return (setting.name,)
    main = SERVER[setting.attribute.replace("_", ".")]
    return (main.name, *main.synonyms)


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the broker settings that DescribeConfigs consults for a broker setting."""
    return SYNONYMS[name].synonyms if name in SYNONYMS else (name,)


def counting_name(name: str, overrides: Mapping[str, str]) -> str:
    """Return the setting whose value counts: internal.segment.bytes wins, as in Kafka."""
    is_beaten = name == "segment.bytes" and INTERNAL_SEGMENT_BYTES.name in overrides
    return INTERNAL_SEGMENT_BYTES.name if is_beaten else name
