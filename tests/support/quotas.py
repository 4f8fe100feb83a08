"""Quotas of a running broker, set as an administrator does."""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from tests.support.kio_schemas import request_class
from tests.support.running import Caller

EVERYBODY: Final = (("client-id", None),)


async def set_quota(
    caller: Caller, key: str, value: float | None, entity: tuple[tuple[str, Any], ...] = EVERYBODY
) -> None:
    """Set or remove a quota by the connection of an administrator."""
    named, part, op = (request_class(49, 1, f"{name}Data") for name in ("Entry", "Entity", "Op"))
    ops = (op(key=key, value=value or 0.0, remove=value is None),)
    parts = tuple(part(entity_type=kind, entity_name=name) for kind, name in entity)
    request = request_class(49, 1)(entries=(named(entity=parts, ops=ops),), validate_only=False)
    (answer,) = (await caller.ask(request)).entries
    assert answer.error_code is ErrorCode.none, answer.error_message
