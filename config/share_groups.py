"""The words of settings of share groups (KIP-932): where a queue begins that nobody has read yet.

The texts are those of Kafka's ``ShareGroupAutoOffsetResetStrategy``, with durations of Java's
``Duration.parse``.
"""

import re
from typing import Final, NamedTuple

from siltstone.config.keys import Check

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_BY_DURATION: Final = "by_duration"
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:(T)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)
_LONGEST_SECONDS: Final = 1 << 63


class OffsetReset(NamedTuple):
    """Where a queue begins: at the earliest or the latest record, or so long ago."""

    word: str
    duration_ms: int = 0


def parse_offset_reset(text: str) -> OffsetReset:
    """Return what a text of share.auto.offset.reset means.

    Raises:
        ValueError: the text has no meaning.
    """
    lower = text.lower()
    if lower in (EARLIEST, LATEST):
        return OffsetReset(lower)
    word, colon, duration = lower.partition(":")
    if word != _BY_DURATION or not colon:
        raise ValueError(f"{text!r} is no place to begin")
    return OffsetReset(word, _milliseconds(duration))


def _milliseconds(text: str) -> int:
    """Return the milliseconds of a duration in ISO 8601, such as P1DT2H3M4.5S."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration")
    days, time, hours, minutes, seconds, fraction = found.groups()
    if (time and not (hours or minutes or seconds)) or not (days or time):
        raise ValueError(f"{text!r} is no duration")
    whole = 60 * (60 * (24 * int(days or 0) + int(hours or 0)) + int(minutes or 0))
    whole += int(seconds or 0)
    if whole >= _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is too long")
    return whole * 1000 + int((fraction or "").ljust(9, "0")) // 1_000_000


def _is_offset_reset(text: str) -> bool:
    try:
        parse_offset_reset(text)
    except ValueError:
        return False
    return True


OFFSET_RESET: Final = Check(
    _is_offset_reset, "earliest, latest, or by_duration:PnDTnHnMn.nS with a duration"
)
