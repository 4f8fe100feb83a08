"""Records of committed offsets, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol._group_kernels import COMPILED, offset_key, offset_row, offset_value
else:
    _groups = choose("protocol._group_kernels")
    COMPILED = _groups.COMPILED
    offset_key = _groups.offset_key
    offset_row = _groups.offset_row
    offset_value = _groups.offset_value

__all__ = ["COMPILED", "offset_key", "offset_row", "offset_value"]
