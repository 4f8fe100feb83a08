"""Keeps skipped bytes, each with a sentence about its fault."""

from pathlib import Path

from siltstone.pipeline.planning.split import Split


class Quarantine:
    """A folder; without one nothing is kept. A second read writes the same names again."""

    def __init__(self, split: Split) -> None:
        self._name = str(split.topic_partition)
        self._folder = Path(split.rules.quarantine) if split.rules.quarantine else None

    def keep(self, sentence: str, segment: int, position: int, data: bytes) -> None:
        """Keep bytes of a segment that are not a batch.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        stem = self._folder / f"{self._name}-{segment:020d}-{position:010d}"
        stem.with_suffix(".bytes").write_bytes(data)
        stem.with_suffix(".txt").write_text(f"{sentence}\n", encoding="utf-8")
