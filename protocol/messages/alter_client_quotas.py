"""AlterClientQuotas (49). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class EntityData(NamedTuple):
    entity_type: Annotated[str, "string"] = ""
    entity_name: Annotated[str | None, "string null"] = ""

class OpData(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[float, "float64"] = 0.0
    remove: Annotated[bool, "bool"] = False

class EntryData(NamedTuple):
    entity: Annotated[Sequence[EntityData], "[]struct"] = ()
    ops: Annotated[Sequence[OpData], "[]struct"] = ()

class AlterClientQuotasRequest(NamedTuple):
    entries: Annotated[Sequence[EntryData], "[]struct"] = ()
    validate_only: Annotated[bool, "bool"] = False
REQUEST = Message(49, 0, 1, 1, AlterClientQuotasRequest)

class ResponseEntityData(NamedTuple):
    entity_type: Annotated[str, "string"] = ""
    entity_name: Annotated[str | None, "string null"] = ""

class ResponseEntryData(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    entity: Annotated[Sequence[ResponseEntityData], "[]struct"] = ()

class AlterClientQuotasResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    entries: Annotated[Sequence[ResponseEntryData], "[]struct"] = ()
RESPONSE = Message(49, 0, 1, 1, AlterClientQuotasResponse)
