"""Settings as text: each kind of value is read here, or refused with a sentence."""

import json
from datetime import UTC, datetime
from typing import Any

from siltstone.pipeline.errors import BadOption
from siltstone.storage.topic_partition import TopicPartition

_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATIONS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def flag(name: str, text: str) -> bool:
    """Return the value of ``true`` or ``false``."""
    if text.lower() not in {"true", "false"}:
        raise BadOption(f"option {name} is true or false, not {text!r}")
    return text.lower() == "true"


def number(name: str, text: str) -> int:
    """Return a whole number that is not negative."""
    if not text.strip().isascii() or not text.strip().isdigit():
        raise BadOption(f"option {name} is a whole number, not {text!r}")
    return int(text)


def size(name: str, text: str) -> int:
    """Return bytes: ``64m``, ``64MB``, ``67108864``."""
    plain = text.strip().lower()
    digits = plain.rstrip("bkmgti ")
    unit = plain[len(digits) :].strip().rstrip("b").rstrip("i") or "b"
    if not digits.isdigit() or unit not in _UNITS:
        raise BadOption(f"option {name} is a number of bytes such as 64m, not {text!r}")
    return int(digits) * _UNITS[unit]


def duration(name: str, text: str) -> int:
    """Return ms: ``1500``, ``30s``, ``15m``."""
    plain = text.strip().lower()
    digits = plain.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = plain[len(digits) :].strip() or "ms"
    if not digits.isdigit() or unit not in _DURATIONS:
        raise BadOption(f"option {name} is a time such as 15m or 1500 (ms), not {text!r}")
    return int(digits) * _DURATIONS[unit]


def time(name: str, text: str) -> int:
    """Return ms since 1970: a number of them, or ISO 8601, in UTC unless it says otherwise."""
    plain = text.strip()
    if plain.lstrip("-").isdigit():
        return int(plain)
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError as error:
        raise BadOption(
            f"option {name} is a time such as 2026-11-01T12:00:00 or ms since 1970, not {text!r}"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def choice(name: str, text: str, among: tuple[str, ...]) -> str:
    """Return one of some words."""
    if text.lower() not in among:
        raise BadOption(f"option {name} is one of {', '.join(among)}, not {text!r}")
    return text.lower()


def assignment(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Return partitions: ``{"orders": [0, 1]}``."""
    try:
        found = [
            TopicPartition(topic, int(partition))
            for topic, partitions in _object(text).items()
            for partition in partitions
        ]
    except (TypeError, ValueError, AttributeError) as error:
        raise BadOption(
            f'option {name} is JSON such as {{"orders":[0,1]}}, not {text!r}'
        ) from error
    return tuple(sorted(set(found)))


def per_partition(name: str, text: str) -> dict[TopicPartition, int]:
    """Return a number for each partition: ``{"orders": {"0": 23, "1": -2}}``."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(value)
            for topic, values in _object(text).items()
            for partition, value in values.items()
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise BadOption(
            f'option {name} is JSON such as {{"orders":{{"0":23,"1":-2}}}}, not {text!r}'
        ) from error


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
