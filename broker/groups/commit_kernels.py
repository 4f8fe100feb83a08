"""Committed offsets, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.groups._commit_kernels import (
        COMPILED,
        GroupOffsets,
        OffsetTable,
        answer_rows,
        commit,
        offset_rows,
    )
else:
    _commits = choose("siltstone.broker.groups._commit_kernels")
    COMPILED = _commits.COMPILED
    GroupOffsets = _commits.GroupOffsets
    OffsetTable = _commits.OffsetTable
    answer_rows = _commits.answer_rows
    offset_rows = _commits.offset_rows
    commit = _commits.commit

__all__ = [
    "COMPILED",
    "GroupOffsets",
    "OffsetTable",
    "answer_rows",
    "commit",
    "offset_rows",
]
