"""The progress of a replay: how far each part of its source was sent, and to which topic.

A position alone is not enough: a topic may have been deleted and created again since, or the range
may differ. The progress of another replay is refused and never used.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Self

from siltstone.pipeline.errors import Refused
from siltstone.pipeline.jobs.replay_source import Part

PROGRESS_TOPIC: Final = "siltstone-replay-progress"
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The target has the records of a part from ``start`` to below ``following``."""

    origin: str
    target: str
    start: int
    following: int
    records: int
    """How many were sent."""
    ends: dict[int, int] = field(default_factory=dict)
    """The offset after the last one that the broker acknowledged, by partition of the target."""

    def to_json(self) -> bytes:
        """Return it as JSON text."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read the text of `to_json`.

        Raises:
            ValueError: It is not a progress, or is from a version that noted only a position.
        """
        try:
            facts = json.loads(text)
            facts["ends"] = {int(number): end for number, end in facts["ends"].items()}
            return cls(**facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"that is no progress of a replay: {error!r}") from error


def begin(
    part: Part, target: str, ends: Mapping[int, int], key: str = "", note: bytes | None = None
) -> Progress:
    """Return the progress from which a part goes on; without a note, that of the part's start.

    ``target`` names the cluster and the topic, ``ends`` are the present ends of its partitions, and
    the note is the record of a key in the topic of all progress.

    Raises:
        Refused: The noted progress is not of this replay.
    """
    if note is None:
        return Progress(
            origin=part.origin, target=target, start=part.start, following=part.start, records=0
        )
    try:
        stored = Progress.from_json(note)
    except ValueError:
        said = note[:_SHOWN].decode(errors="replace")
        why = f"it does not say of which topics it is, as earlier versions left it ({said})"
    else:
        why = _difference(part, target, ends, stored)
        if not why:
            return stored
    raise Refused(
        f"the record {key} of the topic {PROGRESS_TOPIC} is not the progress of this replay: "
        f"{why}; delete that topic, which has the progress of all replays, to send everything, or "
        "from startingOffsets on"
    )


def _difference(part: Part, target: str, ends: Mapping[int, int], stored: Progress) -> str:
    """Return why a progress does not belong to a replay; empty if it does."""
    if stored.target != target:
        return (
            f"it is of the cluster and topic {stored.target}, and now they are {target}: this is "
            "another cluster, or the topic was deleted and made again"
        )
    if stored.origin != part.origin:
        return (
            f"{part.name} was {stored.origin} then and is {part.origin} now: it was made again, or "
            "other records of it are asked for"
        )
    if not stored.start <= part.start <= stored.following:
        return (
            f"of {part.name} it has {stored.start} to {stored.following}, and what is asked for "
            f"begins at {part.start}"
        )
    for partition, end in stored.ends.items():
        if ends.get(partition, 0) < end:
            return (
                f"partition {partition} of the topic ends at {ends.get(partition, 0)}, below "
                f"{end}, up to which it was sent: the broker has lost records"
            )
    return ""
