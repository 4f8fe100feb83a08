"""The classes of protocol.errors."""

import pytest

from siltstone.protocol import errors
from siltstone.protocol.errors import (
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    OffsetOutOfRange,
    ProtocolError,
    error_name,
)


def kafka_errors() -> list[type[KafkaError]]:
    """Return every class that stands for a code."""
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, KafkaError) and value is not KafkaError
    ]


def test_no_two_classes_share_a_code() -> None:
    """A class is a code, so a code is one class."""
    codes = [error.code for error in kafka_errors()]

    assert len(codes) > 40
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("error", kafka_errors())
def test_every_class_has_a_sentence_for_the_client(error: type[KafkaError]) -> None:
    """An error raised without a message still says something, on one line."""
    message = error().message

    assert message.endswith(".")
    assert "\n" not in message
    assert str(error()) == message


def test_a_message_replaces_the_default() -> None:
    """The text of the raising place goes to the client."""
    error = OffsetOutOfRange("offset 7 is above the log end offset 5")

    assert error.message == "offset 7 is above the log end offset 5"
    assert error.record_errors == ()


def test_a_refused_batch_names_its_records() -> None:
    """Record errors travel with the exception."""
    error = InvalidRecord(record_errors=((2, "the key is null"),))

    assert error.record_errors == ((2, "the key is null"),)


def test_undecodable_bytes_are_no_kafka_error() -> None:
    """ProtocolError closes a connection and must not be caught per item."""
    assert not issubclass(ProtocolError, KafkaError)


def test_long_messages_are_shortened() -> None:
    """A message that quotes a client fits the string of an answer, in any letters."""
    error = InvalidRequest("\U0001f480" * 32_767)

    assert len(error.message.encode()) < 1 << 15
    assert error.message.endswith("... (32767 characters)")
    assert InvalidRequest("short").message == "short"


def test_a_code_is_told_by_kafkas_name() -> None:
    """One of a newer Kafka has none here; its number is told."""
    assert [error_name(code) for code in (-1, 3, 9999)] == [
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "error 9999",
    ]
