"""The consumer's embedded protocol, beside the schemas that kio has of it."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from siltstone.protocol.coordinator.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    decode_topics,
    encode_assignment,
    read_version,
)
from siltstone.protocol.errors import ProtocolError

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)
partitions = st.dictionaries(names, st.frozensets(st.integers(0, 99), max_size=4), max_size=3)


@given(partitions, st.integers(0, 3))
def test_assignments_come_back(given_partitions: dict[str, frozenset[int]], version: int) -> None:
    """An assignment written for a member is read as such, in the version of its subscription."""
    written = encode_assignment(given_partitions, version)

    assert read_version(written) == version
    assert decode_assignment(written).partitions == given_partitions


def test_a_subscription_is_read_as_kio_writes_it() -> None:
    """Version 3 has topics, user data, owned partitions, a generation and a rack."""
    from kio.schema.consumer_protocol_subscription.v3.data import (  # noqa: PLC0415
        ConsumerProtocolSubscription,
        TopicPartition,
    )

    body = BytesIO()
    entity_writer(ConsumerProtocolSubscription)(
        body,
        ConsumerProtocolSubscription(
            topics=("a", "b"),
            user_data=b"data",
            owned_partitions=(TopicPartition(topic="a", partitions=(0, 2)),),
            generation_id=7,
            rack_id="r",
        ),
    )

    subscription = decode_subscription(b"\0\3" + body.getvalue())

    assert decode_topics(b"\0\3" + body.getvalue(), 2) == (["a", "b"], 12)
    with pytest.raises(ProtocolError):
        decode_topics(b"\0\3" + body.getvalue(), 1)
    assert subscription.topics == ("a", "b")
    assert subscription.owned == {"a": {0, 2}}
    assert subscription.rack_id == "r"


def test_the_oldest_subscription_owns_nothing() -> None:
    """Version 0 ends after the user data, which may be null."""
    subscription = decode_subscription(b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff")

    assert subscription.topics == ("a",)
    assert subscription.owned == {}


def test_a_subscription_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    """Fields that a later version adds at the end are not looked at."""
    written = b"\0\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\xff\xffmore"

    assert decode_subscription(written).topics == ()


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0\0\7", b"\xff\xff\0\0\0\0\0\0\0\0"])
def test_junk_is_refused(data: bytes) -> None:
    """Metadata of another kind of client does not pass for a subscription."""
    with pytest.raises(ProtocolError):
        decode_subscription(data)
