"""How topics of the broker's own are made when a client asks for one before the broker needs it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEGMENT_BYTES = "104857600"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Partitions and settings instead of the broker's defaults."""

    partitions: int
    overrides: Mapping[str, str]


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "__consumer_offsets": Preset(
            partitions=50,
            overrides={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": _SEGMENT_BYTES,
            },
        ),
        "__transaction_state": Preset(
            partitions=50,
            overrides={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": _SEGMENT_BYTES,
            },
        ),
        "__share_group_state": Preset(
            partitions=50,
            overrides={
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "segment.bytes": _SEGMENT_BYTES,
            },
        ),
    }
)
