"""Results that are kept: one table and one line of JSON for each figure, dated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


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
    (folder / f"{stem}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
