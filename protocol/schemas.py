"""kio's message classes and writers, imported when first used (all of them cost a second).

Only kio's classes and its writers are used: its readers are native code that takes the length of
an array from the wire as an allocation, so that five bytes end the process (kio 0.6.5).
`protocol.request_reader` reads instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

Entity: TypeAlias = Any
"""A kio entity; which class it is depends on API, version and direction."""

EntityClass: TypeAlias = Any
"""The class of an entity: a frozen dataclass that knows its version and whether it is flexible."""

Writer: TypeAlias = Callable[[Any, Entity], None]


_FORMERLY_ONE: Final[Mapping[int, str]] = MappingProxyType(
    {10: "coordinators", 24: "results_by_transaction"}
)
"""API key to what the newest response lists and an old one has a single one of, field by field."""


_RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"results_by_topic_v3_and_below": "topic_results"}
)
"""What a field of an old response is called in the newest."""


@cache
def request_class(api_key: int, version: int) -> EntityClass:
    """Return the class of a request, importing its module the first time."""
    return load_request_schema(api_key, version)


@cache
def response_class(api_key: int, version: int) -> EntityClass:
    """Return the class of a response, importing its module the first time."""
    return load_response_schema(api_key, version)


@cache
def response_writer(api_key: int, version: int) -> Writer:
    """Return the function that writes a response's body; it reads attributes by name."""
    return entity_writer(response_class(api_key, version))


def lower_response(api_key: int, version: int, newest: int, entity: Entity) -> Entity:
    """Return what the version's writer can write: the entity, or a copy with the fields it lost.

    A handler that has a value for a lost field gives its entity an attribute of that name; without
    one it is the default, or an empty array.
    """
    if not _lost_fields(api_key, version, newest):
        return entity
    old_class = response_class(api_key, version)
    listed = _FORMERLY_ONE.get(api_key)
    one = entity if listed is None else getattr(entity, listed)[0]
    values = {}
    for field in fields(old_class):
        default = () if field.default is MISSING else field.default
        value = getattr(entity, field.name, default)
        values[field.name] = getattr(one, _RENAMED.get(field.name, field.name), value)
    return old_class(**values)


@cache
def _lost_fields(api_key: int, version: int, newest: int) -> frozenset[str]:
    """Return the fields of an old response that the newest lacks: Metadata v8-v10 have one."""
    old, new = response_class(api_key, version), response_class(api_key, newest)
    return frozenset(field.name for field in fields(old)) - {field.name for field in fields(new)}
