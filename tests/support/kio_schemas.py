"""Looks up classes and fields in kio's schemas.

kio has no public way to look at a field; this module alone uses kio's private attributes.
"""

import sys
from typing import Any

from kio.index import load_request_schema
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.serial._serialize import get_field_writer

__all__ = [
    "EntityField",
    "EntityTupleField",
    "classify_field",
    "get_field_tag",
    "get_field_writer",
    "get_schema_field_type",
    "is_optional",
    "request_class",
]


def request_class(key: int, version: int, name: str | None = None) -> Any:
    """Return the class of a request, or another one of its module."""
    request = load_request_schema(key, version)
    return request if name is None else getattr(sys.modules[request.__module__], name)
