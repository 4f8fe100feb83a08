"""The file that says where a broker listens, for whoever started it (``--ready-file``).

It is there from the moment at which the broker is ready until it stops, and never half of it.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siltstone.storage import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger(__name__)


class ReadyFile:
    """One such file; all of it blocks, for a moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def clear(self) -> str | None:
        """Remove what an earlier broker left; return why the file cannot be written, if so."""
        folder = self._path.absolute().parent
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            return self._sentence(error)
        if not folder.is_dir():
            return f"cannot write --ready-file {self._path}: there is no folder {folder}; make it"
        if not os.access(folder, os.W_OK):
            return f"cannot write --ready-file {self._path}: {folder} is not writable; allow it"
        return None

    def write(self, facts: Mapping[str, Any]) -> bool:
        """Write it; tell whether that went well, else why is in the log."""
        try:
            data = json.dumps(facts, indent=2).encode() + b"\n"
            files.replace_file(self._path, data, durable=False)
        except OSError as error:
            log.error("%s", self._sentence(error))  # noqa: TRY400  # a sentence says it all
            return False
        return True

    def remove(self) -> None:
        """Remove it: nobody is served any more."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _sentence(self, error: OSError) -> str:
        return (
            f"cannot write --ready-file {self._path}: {error.strerror or error}; name another file"
        )
