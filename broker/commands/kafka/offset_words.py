"""Offsets as they are named on the command line, and what they are in each partition."""

import re
from collections.abc import Callable
from typing import Final

from siltstone.broker.commands.kafka.broker import END, START, Broker, Refused
from siltstone.broker.commands.options import moment

Place = tuple[str, int]
OFFSET_HELP: Final = (
    "start, end, a number, -N for N before the end, or @ and a time in ms or ISO 8601, UTC unless "
    "it says otherwise"
)


class BadOffset(ValueError):  # noqa: N818  # wrong usage
    """An offset makes no sense; the text says why."""


def read_offset(text: str) -> Callable[[Broker, dict[str, list[int]]], dict[Place, int]]:
    """Return a function that finds the first offsets.

    Raises:
        BadOffset: The text has no meaning.
    """
    if text in {"start", "end"}:
        at = START if text == "start" else END
        return lambda broker, wanted: broker.offsets(wanted, at)
    if text.startswith("@"):
        try:
            when = moment(text[1:])
        except ValueError as error:
            raise BadOffset(f"{text}: {error}") from error
        return lambda broker, wanted: _at(broker, wanted, when)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        number = int(text)
        if text.startswith("-"):
            return lambda broker, wanted: _before_end(broker, wanted, -number)
        return lambda broker, wanted: _from_number(broker, wanted, number)
    raise BadOffset(f"{text}: write start, end, a number, -N, or @ and a time")


def _at(broker: Broker, wanted: dict[str, list[int]], when: int) -> dict[Place, int]:
    """Return the first offsets at or after a time; the end offset if all records are older."""
    ends = broker.offsets(wanted, END)
    found = broker.offsets(wanted, when)
    return {place: ends[place] if offset < 0 else offset for place, offset in found.items()}


def _from_number(broker: Broker, wanted: dict[str, list[int]], number: int) -> dict[Place, int]:
    """Return a number as the offset of every partition, moved into the partition's range."""
    starts, ends = broker.offsets(wanted, START), broker.offsets(wanted, END)
    if number > max(ends.values(), default=0):
        ends_at = ", ".join(f"{name}-{each} ends at {end}" for (name, each), end in ends.items())
        raise Refused(f"offset {number} does not exist yet: {ends_at}")
    return {place: min(max(number, start), ends[place]) for place, start in starts.items()}


def _before_end(broker: Broker, wanted: dict[str, list[int]], count: int) -> dict[Place, int]:
    starts = broker.offsets(wanted, START)
    ends = broker.offsets(wanted, END, is_committed=True)
    return {place: max(starts[place], end - count) for place, end in ends.items()}
