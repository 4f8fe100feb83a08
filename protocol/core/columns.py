"""Batches turned into columns, compiled where they could be: a part of the core for readers."""

from typing import TYPE_CHECKING

from siltstone.protocol.core.choosing import choose
from siltstone.protocol.core.plain_columns import BatchRow, Filled, Selection

if TYPE_CHECKING:
    from siltstone.protocol.core.plain_columns import COMPILED, Rows, Survey, fill_columns
else:
    _columns = choose("siltstone.protocol.core._columns", "siltstone.protocol.core.plain_columns")
    COMPILED = _columns.COMPILED
    Rows = _columns.Rows
    Survey = _columns.Survey
    fill_columns = _columns.fill_columns

__all__ = ["COMPILED", "BatchRow", "Filled", "Rows", "Selection", "Survey", "fill_columns"]
