"""How topics of the broker's own are made, whether it or a client needs them first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.protocol import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.config.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Partitions and settings instead of the broker's defaults."""

    partitions: int
    overrides: Mapping[str, str]


def preset_for(name: str, server: ServerConfig) -> Preset:
    """Return how a topic is made without a description."""
    match name:
        case names.OFFSETS_TOPIC:
            return Preset(
                partitions=server.offsets_topic_num_partitions,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(server.offsets_topic_segment_bytes),
                },
            )
        case names.TRANSACTIONS_TOPIC:
            return Preset(
                partitions=server.transaction_state_log_num_partitions,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "segment.bytes": str(server.transaction_state_log_segment_bytes),
                },
            )
        case names.SHARE_STATE_TOPIC:
            return Preset(
                partitions=50,
                overrides={
                    "cleanup.policy": "delete",
                    "retention.ms": "-1",
                    "segment.bytes": str(100 << 20),
                },
            )
        case _:
            return Preset(partitions=server.num_partitions, overrides={})
