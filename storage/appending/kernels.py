"""The growing ends of segments and logs, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.storage.appending import _append_kernels as MODULE  # noqa: N812  # chosen once
    from siltstone.storage.appending._append_kernels import (
        COMPILED,
        UNKNOWN,
        Lock,
        LogEnd,
        PlainRules,
        ProducerEntry,
        SegmentEnd,
    )
else:
    MODULE = choose("siltstone.storage.appending._append_kernels")
    COMPILED = MODULE.COMPILED
    UNKNOWN = MODULE.UNKNOWN
    Lock = MODULE.Lock
    LogEnd = MODULE.LogEnd
    PlainRules = MODULE.PlainRules
    ProducerEntry = MODULE.ProducerEntry
    SegmentEnd = MODULE.SegmentEnd

__all__ = [
    "COMPILED",
    "MODULE",
    "UNKNOWN",
    "Lock",
    "LogEnd",
    "PlainRules",
    "ProducerEntry",
    "SegmentEnd",
]
