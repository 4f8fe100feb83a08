"""Whether a client knows who leads a partition (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import FencedLeaderEpoch, UnknownLeaderEpoch

if TYPE_CHECKING:
    from storage.log import Log

UNKNOWN = -1


def check_leader_epoch(log: Log, epoch: int) -> None:
    """Refuse a client whose leader epoch is not the current one; `UNKNOWN` is fine.

    Raises:
        FencedLeaderEpoch: The client's is older.
        UnknownLeaderEpoch: The client's is newer.
    """
    if epoch not in {UNKNOWN, log.leader_epoch}:
        raise FencedLeaderEpoch if epoch < log.leader_epoch else UnknownLeaderEpoch
