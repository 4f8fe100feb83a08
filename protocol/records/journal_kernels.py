"""The loops over a journal, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol.records._journal_kernels import COMPILED, pack_rows, read_journal

JOURNAL = "protocol.records._journal_kernels"

if not TYPE_CHECKING:
    _journal = choose(JOURNAL)
    COMPILED = _journal.COMPILED
    pack_rows = _journal.pack_rows
    read_journal = _journal.read_journal

__all__ = ["COMPILED", "JOURNAL", "pack_rows", "read_journal"]
