"""Compares our structures with kio's entities, field by field."""

from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from siltstone.protocol.messages import NO_ID


def assert_says_the_same(row: Any, entity: Any) -> None:
    """Compare a structure with kio's entity, field by field."""
    for field in fields(entity):
        expected = getattr(entity, field.name)
        named = (f"{field.name}{ending}" for ending in ("", "_ms", "_or_member_epoch"))
        name = next(each for each in named if hasattr(row, each))
        _assert_same(getattr(row, name), expected)


def _assert_same(found: Any, expected: Any) -> None:
    """Compare one of our values with one of kio's."""
    if isinstance(expected, tuple) and found is not None:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _assert_same(one, other)
    elif hasattr(expected, "__dataclass_fields__"):
        assert_says_the_same(found, expected)
    else:
        assert found == _plain(expected) or (expected is None and found in {NO_ID, -1})


def _plain(value: Any) -> Any:
    """Return kio's form of a value in ours."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value
