"""DescribeClientQuotas (48) and AlterClientQuotas (49), versions 0-1 (KIP-546).

v1 compact encoding.

Differs from Kafka: there are no quotas yet. None is ever described, removing one succeeds, and
setting one is refused with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.protocol.errors import ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from siltstone.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
    from siltstone.protocol.messages.describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

_ENTITY_TYPES: Final = frozenset({"user", "client-id", "ip"})
_MATCH_TYPES: Final = {0: "EXACT", 1: "DEFAULT", 2: "SPECIFIED"}
_EXACT: Final = 0
_REFUSAL: Final = "this broker has no quotas yet; nothing is set"


def describe(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer that there are no quotas, if the filter is valid."""
    del context
    try:
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code,
            error_message=error.message,
            entries=None,
        )
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _check(components: Sequence[ComponentData]) -> None:
    """Refuse a filter that contradicts itself, in the order and the words of Apache Kafka.

    Raises:
        InvalidRequest: It contradicts itself.
        UnsupportedVersion: It names a type of entity that nobody knows.
    """
    seen: set[str] = set()
    for each in components:
        kind, match_type = each.entity_type, each.match_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in seen:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _ENTITY_TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        name = _MATCH_TYPES.get(match_type)
        if name is None:
            raise InvalidRequest(f"Unknown match type {match_type}")
        if match_type == _EXACT and each.match is None:
            raise InvalidRequest(
                "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
        if match_type != _EXACT and each.match is not None:
            raise InvalidRequest(
                f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def alter(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Refuse to set a quota; one that is to be removed is not there already."""
    del context
    entries = []
    for entry in request.entries:
        is_fine = all(each.remove for each in entry.ops)
        entries.append(
            ResponseEntryData(
                error_code=ErrorCode.none if is_fine else UnsupportedVersion.code,
                error_message=None if is_fine else _REFUSAL,
                entity=[ResponseEntityData(*each) for each in entry.entity],
            )
        )
    return AlterClientQuotasResponse(entries=entries)
