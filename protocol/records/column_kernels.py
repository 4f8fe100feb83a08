"""The kernels that turn batches into columns, compiled where they could be: import them here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol.records._column_kernels import COMPILED, fill_columns, survey_batches

COLUMNS = "protocol.records._column_kernels"

if not TYPE_CHECKING:
    _columns = choose(COLUMNS)
    COMPILED = _columns.COMPILED
    fill_columns = _columns.fill_columns
    survey_batches = _columns.survey_batches

__all__ = ["COLUMNS", "COMPILED", "fill_columns", "survey_batches"]
