"""Whether a client knows who leads a partition (KIP-320)."""

from __future__ import annotations

from typing import Final

from siltstone.protocol.errors import ErrorCode

UNKNOWN: Final = -1
"""The leader epoch of a client that does not know it."""


def judge_leader_epoch(current: int, told: int) -> ErrorCode:
    """Return the error for a client that told neither `UNKNOWN` nor the current leader epoch."""
    if told < current:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
