"""Legal names and ids."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol import names
from siltstone.protocol.errors import InvalidTopic


@pytest.mark.parametrize(
    "name", ["a", "orders-3", "a.b_c-D9", "...", "x" * 249, "__consumer_offsets"]
)
def test_legal_topic_names(name: str) -> None:
    """Letters, digits, dot, underscore and dash make a name of up to 249 characters."""
    names.check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "x" * 250, "a b", "a\n", "\x00", "ä", "٣", "a:b"]
)
def test_illegal_topic_names(name: str) -> None:
    """A name that could leave the data folder, or is not ASCII, is refused."""
    with pytest.raises(InvalidTopic):
        names.check_topic_name(name)


@given(st.text(max_size=300))
def test_no_accepted_name_is_a_path(name: str) -> None:
    """A name that passes is one component of a path."""
    try:
        names.check_topic_name(name)
    except InvalidTopic:
        return

    assert "/" not in name
    assert name not in {".", ".."}
    assert name.isascii()


def test_internal_topics() -> None:
    """The broker's own topics are known by name."""
    assert names.is_internal("__consumer_offsets")
    assert not names.is_internal("orders")


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("librdkafka", True),
        ("2.16.1-rc", True),
        ("a", True),
        ("", False),
        ("-a", False),
        ("a ", False),
    ],
)
def test_client_software_names(text: str, legal: bool) -> None:
    """The pattern is that of KIP-511."""
    assert names.is_software_name(text) is legal


@given(st.uuids())
def test_uuid_text_round_trip(value: UUID) -> None:
    """The text form has 22 characters and leads back to the id."""
    text = names.uuid_text(value)

    assert len(text) == 22
    assert names.parse_uuid(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "A", "A" * 21, "A" * 23, "A" * 24, "A" * 21 + "B", "A" * 21 + "=", "!" * 22, "ä" * 22],
)
def test_a_text_that_is_no_id_is_refused(text: str) -> None:
    """Padding, stray characters and spare bits are not accepted."""
    with pytest.raises(ValueError, match="base64url"):
        names.parse_uuid(text)
