"""How the broker's own topics are created, whether the broker or a client needs them first."""

from collections.abc import Mapping
from typing import NamedTuple

from siltstone.config.server import ServerConfig
from siltstone.protocol import names


class Preset(NamedTuple):
    """Partitions and settings that replace the broker's defaults."""

    partitions: int
    overrides: Mapping[str, str]


def preset_for(name: str, server: ServerConfig) -> Preset:
    """Return the partitions and settings for a topic that is created without a description."""
    match name:
        case names.OFFSETS_TOPIC:
            partitions, codec = server.offsets_topic_num_partitions, "producer"
            segment_bytes = server.offsets_topic_segment_bytes
        case names.TRANSACTIONS_TOPIC:
            partitions, codec = server.transaction_state_log_num_partitions, "uncompressed"
            segment_bytes = server.transaction_state_log_segment_bytes
        case names.SHARE_STATE_TOPIC:
            kept = {"cleanup.policy": "delete", "compression.type": "producer"}
            kept["retention.ms"] = "-1"
            size = str(server.share_coordinator_state_topic_segment_bytes)
            count = server.share_coordinator_state_topic_num_partitions
            return Preset(count, kept | {"segment.bytes": size})
        case _:
            return Preset(server.num_partitions, {})
    compacted = {"cleanup.policy": "compact", "compression.type": codec}
    return Preset(partitions, compacted | {"segment.bytes": str(segment_bytes)})
