"""Results that are kept: one table and one line of JSON for each figure, dated.

A line is one quantity of one broker in one case: median, least and most of its rounds.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Line: TypeAlias = dict[str, Any]
Samples: TypeAlias = "Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]"
"""Quantities of each round, by case and broker."""


def lines_of(samples: Samples, about: Mapping[str, object]) -> list[Line]:
    """Return a line for each quantity of each broker in each case."""
    return [
        {
            "case": case,
            "broker": name,
            "quantity": quantity,
            "n": len(results),
            "median": statistics.median(result[quantity] for result in results),
            "least": min(result[quantity] for result in results),
            "most": max(result[quantity] for result in results),
            **about,
        }
        for case, found in samples.items()
        for name, results in found.items()
        for quantity in (results[0] if results else ())
    ]


def read(path: Path) -> list[Line]:
    """Return the lines of a file, none if there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def merge(path: Path, lines: Sequence[Line]) -> list[Line]:
    """Put lines into a file, in the place of those of the same cases and brokers."""
    new = {(line["case"], line["broker"]) for line in lines}
    merged = [line for line in read(path) if (line["case"], line["broker"]) not in new]
    merged += lines
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(merged), encoding="utf-8")
    return merged


def store(
    folder: Path,
    name: str,
    table: str,
    lines: Iterable[Mapping[str, Any]],
    about: Mapping[str, object],
) -> None:
    """Write NAME-DATE.md and NAME-DATE.jsonl; ``about`` has at least the date."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{about['date']}"
    head = "\n".join(f"* {key.replace('_', ' ')}: {value}" for key, value in about.items())
    (folder / f"{stem}.md").write_text(f"# {stem}\n\n{head}\n\n{table}\n", encoding="utf-8")
    (folder / f"{stem}.jsonl").write_text(_text(lines), encoding="utf-8")


def _text(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)
