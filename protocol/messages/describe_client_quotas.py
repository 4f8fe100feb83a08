"""DescribeClientQuotas (48). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ComponentData(NamedTuple):
    entity_type: Annotated[str, "string"] = ""
    match_type: Annotated[int, "int8"] = 0
    match: Annotated[str | None, "string null"] = ""

class DescribeClientQuotasRequest(NamedTuple):
    components: Annotated[Sequence[ComponentData], "[]struct"] = ()
    strict: Annotated[bool, "bool"] = False
REQUEST = Message(48, 0, 1, 1, DescribeClientQuotasRequest)

class EntityData(NamedTuple):
    entity_type: Annotated[str, "string"] = ""
    entity_name: Annotated[str | None, "string null"] = ""

class ValueData(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[float, "float64"] = 0.0

class EntryData(NamedTuple):
    entity: Annotated[Sequence[EntityData], "[]struct"] = ()
    values: Annotated[Sequence[ValueData], "[]struct"] = ()

class DescribeClientQuotasResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    entries: Annotated[Sequence[EntryData] | None, "[]struct null"] = ()
RESPONSE = Message(48, 0, 1, 1, DescribeClientQuotasResponse)
