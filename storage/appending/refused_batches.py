"""The reasons by which refused batches are counted: Kafka's reasons, and our own limits.

Kafka has its reasons in ``LogValidator.MetricsRecorder``.
"""

from typing import Final

from siltstone.storage.producers.entry import ALL_PRODUCERS_LIMIT, PRODUCER_LIMIT

INVALID_MESSAGE_CRC: Final = "InvalidMessageCrc"
INVALID_MAGIC_NUMBER: Final = "InvalidMagicNumber"
INVALID_OFFSET_OR_SEQUENCE: Final = "InvalidOffsetOrSequence"
NO_KEY_COMPACTED_TOPIC: Final = "NoKeyCompactedTopic"

UNFOLDS_TOO_FAR: Final = "UnfoldsTooFar"

COUNTED: Final = (
    INVALID_MESSAGE_CRC, INVALID_MAGIC_NUMBER, INVALID_OFFSET_OR_SEQUENCE, NO_KEY_COMPACTED_TOPIC,
    PRODUCER_LIMIT, ALL_PRODUCERS_LIMIT, UNFOLDS_TOO_FAR,
)  # fmt: skip
