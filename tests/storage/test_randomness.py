"""Ids and other chance."""

from uuid import RFC_4122, UUID

import pytest

from siltstone.protocol.names import RESERVED_IDS, uuid_text
from siltstone.storage import randomness
from siltstone.storage.randomness import random_below, random_bytes, random_id, random_uuid


def test_new_ids_are_neither_reserved_nor_options() -> None:
    """The text of a new id is safe on a command line."""
    texts = [uuid_text(random_id()) for _ in range(500)]

    assert not [text for text in texts if text.startswith("-")]
    assert len(set(texts)) == len(texts)
    assert not {uuid_text(each) for each in RESERVED_IDS}.intersection(texts)


def test_a_uuid_says_that_it_is_random() -> None:
    """Version 4, in the variant of RFC 4122: what others make is told apart."""
    value = random_uuid()

    assert value.version == 4
    assert value.variant == RFC_4122


def test_all_chance_is_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes of the system are the same chance."""
    monkeypatch.setattr(randomness, "source", bytes)

    assert random_bytes(3) == b"\0\0\0"
    assert random_below(7) == 0
    assert random_uuid() == UUID("00000000-0000-4000-8000-000000000000")
