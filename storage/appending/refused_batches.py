"""The reasons by which refused batches are counted: Kafka's, and our own limits.

Kafka's are those of ``LogValidator.MetricsRecorder``.
"""

from typing import Final

INVALID_MESSAGE_CRC: Final = "InvalidMessageCrc"
INVALID_MAGIC_NUMBER: Final = "InvalidMagicNumber"
INVALID_OFFSET_OR_SEQUENCE: Final = "InvalidOffsetOrSequence"
NO_KEY_COMPACTED_TOPIC: Final = "NoKeyCompactedTopic"

PRODUCER_LIMIT: Final = "ProducerLimit"
ALL_PRODUCERS_LIMIT: Final = "AllProducersLimit"
UNFOLDS_TOO_FAR: Final = "UnfoldsTooFar"

COUNTED: Final = (
    INVALID_MESSAGE_CRC,
    INVALID_MAGIC_NUMBER,
    INVALID_OFFSET_OR_SEQUENCE,
    NO_KEY_COMPACTED_TOPIC,
    PRODUCER_LIMIT,
    ALL_PRODUCERS_LIMIT,
    UNFOLDS_TOO_FAR,
)
