"""Quotas of a running broker, set as an administrator does."""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from tests.support.kio_messages import request
from tests.support.running import Caller

EVERYBODY: Final = (("client-id", None),)


async def set_quota(
    caller: Caller, key: str, value: float | None, entity: tuple[tuple[str, Any], ...] = EVERYBODY
) -> None:
    """Set or remove a quota by the connection of an administrator."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None}]
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    (answer,) = (await caller.ask(request(49, 1, entries=[{"entity": parts, "ops": ops}]))).entries
    assert answer.error_code is ErrorCode.none, answer.error_message
