"""Names that are not in the typed table: Kafka's own, the other level's, and misspelt ones."""

import re
from collections.abc import Iterable

from siltstone.config.known import Known, known_broker, known_settings, known_topic
from siltstone.config.protection import broken_promise
from siltstone.config.table import BROKER, TOPIC
from siltstone.config.values import parse

_REPLICAS = ".replication.throttled.replicas"
_IS_REPLICA = re.compile(r"[0-9]+:[0-9]+").fullmatch
_MAX_GUESSED = 200  # characters; for a longer name no similar one is looked for
_MAX_HINTS = 20
_NO_HINT = "see docs/configuration.md for the names there are"


def unknown_topic_setting(name: str, text: str, faults: list[str], warnings: list[str]) -> None:
    """Warn of a topic setting that is not obeyed; it is a fault if Kafka does not know it."""
    known = known_topic(name)
    if known is None:
        hint = _hint_for_topic(name) if len(faults) < _MAX_HINTS else _NO_HINT
        faults.append(f"{name} is not a topic setting; {hint}")
    elif name == "remote.storage.enable" and text.strip().lower() == "true":
        faults.append(f"{name} is true, but there is no tiered storage here; remove it")
    elif name.endswith(_REPLICAS) and not _are_replicas(text):
        faults.append(f"{name} is {text}; it must be * or a list of PARTITION:BROKER")
    else:
        _keep(known, text, "", faults, warnings)


def _are_replicas(text: str) -> bool:
    items = [item.strip() for item in text.split(",") if item.strip()]
    return items == ["*"] or all(_IS_REPLICA(item) for item in items)


def unknown_broker_setting(
    name: str, text: str, where: str, faults: list[str], warnings: list[str]
) -> Known | None:
    """Warn of a broker setting that is not obeyed; it is a fault if Kafka does not know it.

    A dynamic value has no place in a file: its ``where`` is empty.
    """
    place = f"{where}: " if where else ""
    known = known_broker(name)
    if known is None:
        hint = _hint_for_broker(name) if len(faults) < _MAX_HINTS else _NO_HINT
        faults.append(f"{place}{name} is not a setting; {hint}")
        return None
    _keep(known, text, place, faults, warnings)
    return known


def why_fixed(known: Known, *, cluster: bool) -> list[str]:
    """Return why Kafka does not alter a setting at run time, for all brokers or for one broker."""
    if known.alterable == "-":
        return [f"{known.name} cannot be altered while the broker runs"]
    if known.name.startswith("ssl."):
        return [f"{known.name} can only be altered for a listener, as listener.name.NAME.…"]
    if known.alterable == "broker" and cluster:
        return [f"{known.name} can only be altered for one broker; name its id"]
    return []


def _keep(known: Known, text: str, place: str, faults: list[str], warnings: list[str]) -> None:
    try:
        parse(known.kind, text)
    except ValueError as error:
        faults.append(f"{place}{known.name} is {text or 'empty'}; it must be {error}")
        return
    broken = broken_promise(known, text, is_dynamic=not place)
    if broken is not None:
        faults.append(place + broken)
        return
    gone = "was a setting of Apache Kafka before 4.0" if known.status == "removed" else ""
    warnings.append(
        f"{place}{known.name} {gone or 'is a setting of Apache Kafka'}; it is kept but has no "
        "meaning here"
    )


def _hint_for_topic(name: str) -> str:
    twin = next((topic.name for topic in TOPIC.values() if name in topic.synonyms), None)
    if twin is not None:
        return f"for one topic it is called {twin}"
    return did_you_mean(name, (*TOPIC, *known_settings("topic")))


def _hint_for_broker(name: str) -> str:
    if name in TOPIC and TOPIC[name].synonyms:
        return f"for all topics it is called {TOPIC[name].synonyms[0]}"
    return did_you_mean(name, (*BROKER, *known_settings("broker")))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with the nearest of the names, or a hint where to find the names."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only faults need it

    nearest = []
    if len(name) <= _MAX_GUESSED:
        nearest = get_close_matches(name, dict.fromkeys(names), n=1)
    if nearest:
        return f"did you mean {nearest[0]}?"
    return _NO_HINT
