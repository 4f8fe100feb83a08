"""The loops of a pass over bytes, compiled where they could be: the core's part for the cleaner."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.protocol.core.plain_compaction import (
        COMPILED,
        MapBuilder,
        OffsetMap,
        RecordFilter,
        Transactions,
        digest_of,
    )
else:
    try:
        import siltstone.protocol.core._compaction as compaction
    except ModuleNotFoundError:  # it is not compiled, or is not wanted (`siltstone`)
        import siltstone.protocol.core.plain_compaction as compaction
    COMPILED = compaction.COMPILED
    MapBuilder = compaction.MapBuilder
    OffsetMap = compaction.OffsetMap
    RecordFilter = compaction.RecordFilter
    Transactions = compaction.Transactions
    digest_of = compaction.digest_of

__all__ = ["COMPILED", "MapBuilder", "OffsetMap", "RecordFilter", "Transactions", "digest_of"]
