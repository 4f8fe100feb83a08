"""What the requests that clients repeat most name, for the shortcut past their guards.

The kernel has the numbers once more, in ``_shortcut_kernels.pxd``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from siltstone.protocol.messages.fetch import FetchRequest
from siltstone.protocol.messages.offset_commit import OffsetCommitRequest
from siltstone.protocol.messages.produce import ProduceRequest
from siltstone.protocol.topic_key import FIRST_OFFSETS_WITH_TOPIC_ID, FIRST_WITH_TOPIC_ID

WHOLE: Final = 0
"""A request needs the right to the group that it is about as a whole."""

TRANSACTION: Final = 1
"""It needs the right to its transaction, if one of its batches says that it is in one."""

SESSION: Final = 2
"""It needs the right to all that its session has named before."""

WHOLE_COLUMN: Final = 0
"""Of a group or a transactional id."""

SESSION_ID: Final = FetchRequest._fields.index("session_id")
SESSION_EPOCH: Final = FetchRequest._fields.index("session_epoch")
MAX_NAMES: Final = 20_000
"""That are remembered of all clients, of one API."""

MAX_NAME: Final = 256
"""Of a name: longer ones are a stranger's, and remembering them would let him fill the memory."""

_NO_ROWS: Final = -1


class Named(NamedTuple):
    """What a request names: as a whole, and by the topics in the column ``rows``."""

    kind: int
    rows: int = _NO_ROWS
    first_by_id: int = 0


NAMED: Final = {
    0: Named(TRANSACTION, ProduceRequest._fields.index("topic_data"), FIRST_WITH_TOPIC_ID),
    1: Named(SESSION, FetchRequest._fields.index("topics"), FIRST_WITH_TOPIC_ID),
    8: Named(WHOLE, OffsetCommitRequest._fields.index("topics"), FIRST_OFFSETS_WITH_TOPIC_ID),
    11: Named(WHOLE),
    12: Named(WHOLE),
    13: Named(WHOLE),
    14: Named(WHOLE),
}
"""Of each API whose guard has a shortcut."""
