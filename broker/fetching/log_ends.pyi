from collections.abc import Sequence
from typing import Final

from siltstone.protocol.core import Grid
from siltstone.protocol.messages.list_offsets import ListOffsetsPartition
from siltstone.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition
from siltstone.storage.log.log import Log

LATEST: Final = -1
EARLIEST: Final = -2

def are_distinct(partitions: Sequence[ListOffsetsPartition]) -> bool: ...
def list_ends(
    partitions: Sequence[ListOffsetsPartition], logs: Sequence[Log | None], is_committed: bool
) -> tuple[Grid, list[int]]: ...
def list_epoch_ends(
    partitions: Sequence[OffsetForLeaderPartition], logs: Sequence[Log | None]
) -> tuple[Grid, list[int]]: ...
