"""Old requests as the newest version's entity, old responses from it: one handler for all versions.

kio has a class for each version, whose field names are stable, so a request is lifted by name: a
field that the old version lacks takes the default of the newest class, or what the tables here
say. Responses need nothing of the kind, since the old version's writer reads attributes by name,
except where an old version has a field that the newest has lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from protocol.errors import ProtocolError
from protocol.schemas import Entity, EntityClass, request_class, response_class

_PREFERRED_ELECTION: Final = 0
_CLIENT_METRICS_RESOURCE: Final = 16

_ABSENT: Final[Mapping[tuple[str, str], Any]] = MappingProxyType(
    {
        ("ApiVersionsRequest", "client_software_name"): "",
        ("ApiVersionsRequest", "client_software_version"): "",
        ("DeleteTopicsRequest", "topics"): (),
        ("DescribeClusterRequest", "include_fenced_brokers"): False,
        ("ElectLeadersRequest", "election_type"): _PREFERRED_ELECTION,
        ("ListOffsetsRequest", "isolation_level"): 0,
        ("ListOffsetsRequest", "timeout"): timedelta(0),
        ("MetadataRequest", "include_topic_authorized_operations"): False,
        ("MetadataRequestTopic", "topic_id"): None,
    }
)
"""(class, field) that old versions lack and that have no default in the newest."""


def _all_topics_if_none_named(old: Entity) -> dict[str, Any]:
    """Metadata v0: no topic at all means every topic, which is null from v1 on."""
    return {} if old.topics else {"topics": None}


def _topics_by_name(old: Entity) -> dict[str, Any]:
    """Return DeleteTopics v1-v5 as v6: names become entries that may have an id instead."""
    from kio.schema.delete_topics.v6.request import DeleteTopicState  # noqa: PLC0415  # lazily

    return {"topics": tuple(DeleteTopicState(name=name, topic_id=None) for name in old.topic_names)}


def _client_metrics_only(old: Entity) -> dict[str, Any]:
    """ListConfigResources v0 lists client metrics; from v1 on the request says what it wants."""
    del old
    return {"resource_types": (_CLIENT_METRICS_RESOURCE,)}


_RESHAPED: Final[Mapping[int, tuple[int, Callable[[Entity], dict[str, Any]]]]] = MappingProxyType(
    {
        3: (1, _all_topics_if_none_named),
        20: (6, _topics_by_name),
        74: (1, _client_metrics_only),
    }
)
"""API key to the first version of today's shape, and what older ones say in that shape."""


@cache
def request_lifter(api_key: int, version: int, newest: int) -> Callable[[Entity], Entity]:
    """Return the function that makes the newest request of one of this version.

    It raises `ProtocolError` for a null array where the version has no null: kio lets that pass.
    """
    lift = _lifter(request_class(api_key, version), request_class(api_key, newest))
    first, reshape = _RESHAPED.get(api_key, (0, None))
    if reshape is None or version >= first:
        return lambda old: lift(old, {})
    return lambda old: lift(old, reshape(old))


@cache
def _lifter(source: EntityClass, target: EntityClass) -> Callable[[Entity, dict[str, Any]], Entity]:
    """Return the function that checks a ``source`` and copies it into a ``target``."""
    known = {field.name: field for field in fields(source)}
    absent: dict[str, Any] = {}
    copied: list[tuple[str, Callable[[Any], Any] | None]] = []
    for field in fields(target):
        if field.name in known:
            copied.append((field.name, _value_lifter(known[field.name], field)))
        elif field.default is MISSING:
            absent[field.name] = _ABSENT[target.__name__, field.name]

    def lift(old: Entity, values: dict[str, Any]) -> Entity:
        for name, convert in copied:
            if name not in values:
                value = getattr(old, name)
                values[name] = value if convert is None else convert(value)
        return target(**(absent | values))

    def check(same: Entity, values: dict[str, Any]) -> Entity:
        del values
        for name, convert in copied:
            if convert is not None:
                convert(getattr(same, name))
        return same

    return check if source is target else lift


def _value_lifter(source: Any, target: Any) -> Callable[[Any], Any] | None:
    """Return how a field's value changes; None if it stays and cannot be wrongly null."""
    kind = classify_field(source)
    if not kind.is_array and not isinstance(kind, EntityField):
        return None
    nullable = is_optional(source)
    lift = None
    if isinstance(kind, EntityField | EntityTupleField):
        lift = _lifter(kind.type_, classify_field(target).type_)

    def convert(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise ProtocolError(f"{source.name} is null, which this version does not allow")
            return None
        if lift is None:
            return value
        return tuple(lift(item, {}) for item in value) if kind.is_array else lift(value, {})

    return convert


def lower_response(api_key: int, version: int, newest: int, entity: Entity) -> Entity:
    """Return what the version's writer can write: the entity, or a copy with the lost fields.

    A handler that has a value for a lost field gives its entity an attribute of that name.
    """
    lost = _lost_fields(api_key, version, newest)
    if not lost:
        return entity
    old_class = response_class(api_key, version)
    return old_class(
        **{field.name: getattr(entity, field.name, field.default) for field in fields(old_class)}
    )


@cache
def _lost_fields(api_key: int, version: int, newest: int) -> frozenset[str]:
    """Return the fields of an old response that the newest lacks: Metadata v8-v10 has one."""
    old, new = response_class(api_key, version), response_class(api_key, newest)
    return frozenset(field.name for field in fields(old)) - {field.name for field in fields(new)}
