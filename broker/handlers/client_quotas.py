"""DescribeClientQuotas (48) and AlterClientQuotas (49), versions 0-1 (KIP-546).

v1 compact encoding. When a change is answered, it is on the disk and in force.

Differs from Kafka: the entity ``ip`` is an address, since names are not resolved; a type that an
entity has twice is refused; a quota is kept whatever requests a client sends, since its connections
wait one after the other; a client that was silent has half of Kafka's credit at once; the answer to
a Fetch above the quota has its records, where Kafka reads them again later; ``request_percentage``
counts the time of the event loop alone, in whole turns, and a client waits up to
``quota.window.num`` windows for it instead of one; topics that Metadata creates do not count as
mutations; an entity that a request alters twice is not changed, where Kafka answers with a refusal
but still makes the first change, which no audit log would show.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.quotas import book
from siltstone.broker.security.rights import ALTER_CONFIGS, CLUSTER, DESCRIBE_CONFIGS
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode, InvalidRequest, KafkaError, UnsupportedVersion
from siltstone.protocol.messages import describe_client_quotas
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from siltstone.protocol.messages.alter_client_quotas import EntryData as Alteration

Named = frozenset[tuple[str, str | None]]

_MATCH_TYPES: Final = {0: "EXACT", 1: "DEFAULT", 2: "SPECIFIED"}
_EXACT: Final = 0
_DEFAULT: Final = 1


def describe(
    context: RequestContext, request: describe_client_quotas.DescribeClientQuotasRequest
) -> describe_client_quotas.DescribeClientQuotasResponse:
    """Return the quotas of the entities that match."""
    if not context.may(DESCRIBE_CONFIGS, CLUSTER):
        return describe_client_quotas.DescribeClientQuotasResponse(**CLUSTER_REFUSED, entries=None)
    try:
        _check(request.components)
    except KafkaError as error:
        return describe_client_quotas.DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    entries = [
        describe_client_quotas.EntryData(
            [describe_client_quotas.EntityData(*part) for part in _in_order(entity)],
            [describe_client_quotas.ValueData(key, own[key]) for key in book.QUOTAS if key in own],
        )
        for entity, own in context.services.security.quotas.get().values.items()
        if _matches(entity, request)
    ]
    return describe_client_quotas.DescribeClientQuotasResponse(error_message="", entries=entries)


def _matches(
    entity: book.Entity, request: describe_client_quotas.DescribeClientQuotasRequest
) -> bool:
    """Tell whether an entity matches each component; a strict match allows no other parts."""
    names = dict(entity)
    if request.strict and len(names) != len(request.components):
        return False
    return all(
        kind in names and (match_type not in (_EXACT, _DEFAULT) or names[kind] == match)
        for kind, match_type, match in request.components
    )


def _check(components: Sequence[describe_client_quotas.ComponentData]) -> None:
    """Refuse a filter that contradicts itself, in the order and the words of Apache Kafka."""
    seen: set[str] = set()
    for each in components:
        kind, match_type = each.entity_type, each.match_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in seen:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in book.TYPES:
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
    if book.IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


async def alter(
    context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set and remove quotas; each entity succeeds or fails independently of the others.

    An entity that is named twice has one answer, a refusal.
    """
    share = LoopShare()
    if not context.may(ALTER_CONFIGS, CLUSTER):
        return AlterClientQuotasResponse(entries=await share.each(request.entries, _refuse))
    entries: dict[Named, Alteration] = {}
    changes: dict[Named, tuple[book.Entity, dict[str, float | None]]] = {}
    faults: dict[Named, KafkaError] = {}
    for entry in request.entries:
        await share.rest()
        named = frozenset((each.entity_type, each.entity_name) for each in entry.entity)
        if named in entries:
            faults[named] = InvalidRequest("the entity is named twice; nothing of it is changed")
            changes.pop(named, None)
            continue
        entries[named] = entry
        try:
            changes[named] = _read(entry)
        except InvalidRequest as error:
            faults[named] = error

    def edit(draft: book.Values) -> None:
        for entity, quotas in changes.values():
            _apply(draft, entity, quotas)

    if changes and not request.validate_only:
        try:
            await context.services.security.quota_writer.get().change(edit)
        except KafkaError as error:
            faults = {named: faults.get(named, error) for named in entries}
    answered = await share.each(entries.items(), lambda each: _answer(each[1], faults.get(each[0])))
    return AlterClientQuotasResponse(entries=answered)


def _refuse(entry: Alteration) -> ResponseEntryData:
    return ResponseEntryData(
        **CLUSTER_REFUSED, entity=[ResponseEntityData(*each) for each in entry.entity]
    )


def _read(entry: Alteration) -> tuple[book.Entity, dict[str, float | None]]:
    """Return an entity and its new quotas; a quota to remove is None."""
    entity = book.make_entity(entry.entity)
    quotas: dict[str, float | None] = {}
    for key, value, remove in entry.ops:
        if key in quotas:
            raise InvalidRequest(f"Quota {key} is named twice for the same entity")
        if not remove:
            book.check_quota(entity, key, value)
        quotas[key] = None if remove else value
    return entity, quotas


def _apply(draft: book.Values, entity: book.Entity, quotas: dict[str, float | None]) -> None:
    own = draft.setdefault(entity, {})
    for key, value in quotas.items():
        if value is None:
            own.pop(key, None)
        else:
            own[key] = value
    if not own:
        del draft[entity]


def _answer(entry: Alteration, fault: KafkaError | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=ErrorCode.none if fault is None else fault.code,
        error_message=None if fault is None else fault.message,
        entity=[ResponseEntityData(*each) for each in _in_order(entry.entity)],
    )


def _in_order(entity: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Return the parts in Kafka's order, by the names of their types: clients compare lists."""
    return sorted(entity, key=itemgetter(0))
