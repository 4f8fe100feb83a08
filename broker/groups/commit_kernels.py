"""Committed offsets and the commonest requests, compiled where they could be: import from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from broker.groups._commit_kernels import (
        COMPILED,
        GroupOffsets,
        GroupTable,
        OffsetTable,
    )
else:
    _commits = choose("broker.groups._commit_kernels")
    COMPILED = _commits.COMPILED
    GroupOffsets = _commits.GroupOffsets
    GroupTable = _commits.GroupTable
    OffsetTable = _commits.OffsetTable

__all__ = [
    "COMPILED",
    "GroupOffsets",
    "GroupTable",
    "OffsetTable",
]
