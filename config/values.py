"""Conversion from text to values and back, by Kafka's rules for each kind (Kafka's ConfigDef)."""

import re
from math import inf, isnan
from typing import Any

from siltstone.config.keys import Kind, Setting

_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")


def parse(kind: Kind, text: str) -> Any:
    """Return the value that `text` stands for; white space around it does not count.

    Raises:
        ValueError: the text is no value of that kind; the message completes "it must be ...".
    """
    text = text.strip()
    if kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"
    if kind in _BITS:
        return _whole_number(text, 1 << (_BITS[kind] - 1))
    if kind is Kind.DOUBLE:
        return _number(text)
    if kind is Kind.LIST:
        # An item that is named twice counts once, as in Kafka.
        return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()
    return text


def _whole_number(text: str, limit: int) -> int:
    if _WHOLE.fullmatch(text) is None or not -limit <= int(text) < limit:
        raise ValueError(f"a whole number from {-limit} to {limit - 1}")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if isnan(value) or "_" in text:
        raise ValueError("a number")
    return value


def read(setting: Setting, text: str) -> Any:
    """Return the checked value of a setting.

    Raises:
        ValueError: the kind or the check refuses it; the message completes "it must be ...".
    """
    value = parse(setting.kind, text)
    if setting.kind is Kind.LIST and "" in value:
        raise ValueError("a list without empty items")
    if setting.check is not None and not setting.check.holds(value):
        raise ValueError(setting.check.words)
    return value


def text_of(kind: Kind, value: Any) -> str | None:
    """Return a value as Kafka prints it in DescribeConfigs; None stays None."""
    if value is None:
        return None
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind is Kind.LIST:
        return ",".join(value)
    return _java_double(value) if kind is Kind.DOUBLE else str(value)


def _java_double(value: float) -> str:
    """Return the digits that Java's Double.toString gives."""
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    shortest = next(p for p in range(18) if float(f"{value:.{p}e}") == value)
    mantissa, exponent = f"{value:.{shortest}e}".split("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
