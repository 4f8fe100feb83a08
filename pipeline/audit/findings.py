"""The findings of an audit."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

MAX_LISTED: Final = 50
"""How many findings of a kind are listed for a partition; the others are only counted."""


class Kind(StrEnum):
    """The kinds of faults; that of a file is its kind, such as ``.log`` or ``.index``."""

    CHECKPOINT = "checkpoint"
    MISSING_FILE = "missing-file"
    CUT_END = "cut-end"
    LOST_LATEST = "lost-latest"
    EARLY_TOMBSTONE = "early-tombstone"
    DOUBLED_KEY = "doubled-key"
    MOVED_OFFSET = "moved-offset"
    CHANGED_RECORD = "changed-record"
    RESURRECTED_KEY = "resurrected-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: its place, and a sentence without keys and values."""

    kind: str
    sentence: str
    offset: int = -1


@dataclass(slots=True)
class Findings:
    """The faults of a part of the work: `MAX_LISTED` of each kind, and the number of the others."""

    listed: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, sentence: str, *, offset: int = -1) -> None:
        """Note a fault."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_LISTED:
            self.listed.append(Finding(kind=kind, sentence=sentence, offset=offset))

    def extend(self, others: "Findings") -> None:
        """Add the faults of another part."""
        for kind, count in others.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        self.listed += others.listed

    @property
    def total(self) -> int:
        """How many faults there are."""
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {
            "counts": dict(sorted(self.counts.items())),
            "faults": [asdict(finding) for finding in self.listed],
        }
