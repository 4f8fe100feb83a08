"""Batches turned into columns, compiled where they could be: a part of the core for readers."""

from typing import TYPE_CHECKING

from siltstone.protocol.core.plain_columns import BatchRow, Filled, Selection

if TYPE_CHECKING:
    from siltstone.protocol.core.plain_columns import COMPILED, Rows, Survey, fill_columns
else:
    try:
        import siltstone.protocol.core._columns as columns
    except ModuleNotFoundError:  # it is not compiled, or is not wanted (`siltstone`)
        import siltstone.protocol.core.plain_columns as columns
    COMPILED = columns.COMPILED
    Rows = columns.Rows
    Survey = columns.Survey
    fill_columns = columns.fill_columns

__all__ = ["COMPILED", "BatchRow", "Filled", "Rows", "Selection", "Survey", "fill_columns"]
