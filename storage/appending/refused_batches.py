"""What Kafka counts of batches that it refuses (``LogValidator.MetricsRecorder``)."""

from typing import Final

INVALID_MESSAGE_CRC: Final = "InvalidMessageCrc"
INVALID_MAGIC_NUMBER: Final = "InvalidMagicNumber"
INVALID_OFFSET_OR_SEQUENCE: Final = "InvalidOffsetOrSequence"
NO_KEY_COMPACTED_TOPIC: Final = "NoKeyCompactedTopic"

COUNTED: Final = (
    INVALID_MESSAGE_CRC,
    INVALID_MAGIC_NUMBER,
    INVALID_OFFSET_OR_SEQUENCE,
    NO_KEY_COMPACTED_TOPIC,
)
