"""AlterClientQuotas and DescribeClientQuotas: what is set is described, as by a plain model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from siltstone.broker.handlers.client_quotas import alter, describe
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.quotas.store import FILE_NAME, load_quotas
from siltstone.broker.security.security import Security
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from siltstone.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from siltstone.storage.clock import Clock
from tests.support.kio_messages import request
from tests.support.quotas import set_quota
from tests.support.running import running

KEYS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage"]
NAMES = st.sampled_from(["a", "b", None])
ENTITIES = st.one_of(
    NAMES.map(lambda name: (("user", name),)),
    NAMES.map(lambda name: (("client-id", name),)),
    st.tuples(NAMES, NAMES).map(lambda two: (("client-id", two[1]), ("user", two[0]))),
)
OPS = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(-1, 5), min_size=1)
COMPONENTS = st.dictionaries(
    st.sampled_from(["user", "client-id"]),
    st.sampled_from([(0, "a"), (0, "b"), (1, None), (2, None)]),
)


def services(root: Path, io: IoThreads) -> Any:
    """Return what a handler gets of a broker, as far as quotas go."""
    security = Security(root, io, Clock())
    return SimpleNamespace(services=SimpleNamespace(security=security), may=lambda *_: True)


def entry(entity: Any, ops: dict[str, float | None]) -> EntryData:
    """Return a row of a request; None removes."""
    rows = [
        OpData(key, 0.0 if value is None else value, value is None) for key, value in ops.items()
    ]
    return EntryData([EntityData(*each) for each in entity], rows)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ENTITIES, OPS, st.booleans()), max_size=12), COMPONENTS, st.booleans())
async def test_what_is_set_is_described(
    tmp_path: Path, io: IoThreads, changes: Any, components: Any, strict: bool
) -> None:
    """After any changes, by any filter, and after a start; a row with a fault changes nothing."""
    context = services(tmp_path, io)
    (tmp_path / FILE_NAME).unlink(missing_ok=True)
    expected: dict[Any, dict[str, float]] = {}
    for entity, ops, validates in changes:
        request = AlterClientQuotasRequest([entry(entity, ops)], validates)
        (answer,) = (await alter(context, request)).entries
        is_faulty = any(value is not None and value <= 0 for value in ops.values())
        assert (answer.error_code == ErrorCode.invalid_request.value) == is_faulty
        if is_faulty or validates:
            continue
        own = expected.setdefault(frozenset(entity), {})
        for key, value in ops.items():
            own.pop(key, None)
            if value is not None:
                own[key] = value
    expected = {entity: own for entity, own in expected.items() if own}

    def fits(entity: Any) -> bool:
        names = dict(entity)
        if strict and names.keys() != components.keys():
            return False
        for kind, (how, name) in components.items():
            if kind not in names or (how != 2 and names[kind] != name):
                return False
        return True

    rows = [ComponentData(kind, *how) for kind, how in components.items()]
    entries = describe(context, DescribeClientQuotasRequest(rows, strict)).entries
    assert entries is not None
    found = {frozenset(map(tuple, each.entity)): dict(each.values) for each in entries}
    assert found == {entity: own for entity, own in expected.items() if fits(entity)}
    assert len(entries) == len(found)
    stored = {frozenset(entity): own for entity, own in load_quotas(tmp_path).items()}
    assert stored == expected


async def test_an_entity_twice_is_refused_once(tmp_path: Path, io: IoThreads) -> None:
    """And nothing of it is changed: Apache Kafka makes the first change all the same."""
    context = services(tmp_path, io)
    both = (("user", "a"), ("client-id", "b"))
    request = AlterClientQuotasRequest(
        [
            entry(both, {"request_percentage": 5}),
            entry((("user", "a"),), {"request_percentage": 6}),
            entry(reversed(both), {"request_percentage": 7}),
        ]
    )
    twice, once = (await alter(context, request)).entries

    assert twice.error_code == ErrorCode.invalid_request.value
    assert [tuple(each) for each in twice.entity] == sorted(both)
    assert once.error_code == 0
    assert context.services.security.quotas.get().values == {
        (("user", "a"),): {"request_percentage": 6}
    }


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ((), "request_percentage", 1, "Invalid empty client quota entity"),
        ((("user", ""),), "request_percentage", 1, "Empty user not supported"),
        ((("group", "a"),), "request_percentage", 1, "Unhandled client quota entity type: group"),
        ((("user", "a"), ("user", "b")), "request_percentage", 1, "user is named twice"),
        ((("user", "a"), ("ip", "::1")), "request_percentage", 1, "Invalid empty client quota"),
        ((("ip", "nowhere.example"),), "connection_creation_rate", 1, "not a valid IP"),
        ((("ip", "::1"),), "request_percentage", 1, "Invalid configuration key request_perc"),
        ((("user", "a"),), "connection_creation_rate", 1, "Invalid configuration key connect"),
        ((("user", "a"),), "nope", 1, "Invalid configuration key nope"),
        ((("user", "a"),), "producer_byte_rate", 0, "producer_byte_rate must be greater than 0"),
        ((("user", "a"),), "request_percentage", float("nan"), "must be greater than 0"),
        ((("user", "a"),), "request_percentage", float("inf"), "must be a number"),
        ((("user", "a"),), "producer_byte_rate", 1.5, "cannot be a fractional value"),
        ((("user", "a"),), "producer_byte_rate", 2.0**63, "too large for a LONG"),
        ((("ip", None),), "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
async def test_a_quota_that_makes_no_sense_is_refused(
    tmp_path: Path, io: IoThreads, entity: Any, key: str, value: float, message: str
) -> None:
    """With the reason; another entity of the request is set all the same."""
    context = services(tmp_path, io)
    fine = entry((("client-id", None),), {"controller_mutation_rate": 0.5})
    request = AlterClientQuotasRequest([entry(entity, {key: value}), fine])
    refused, done = (await alter(context, request)).entries

    assert refused.error_code == ErrorCode.invalid_request.value
    assert message in str(refused.error_message)
    assert [tuple(each) for each in refused.entity] == sorted(entity)
    assert (done.error_code, done.error_message) == (0, None)
    assert context.services.security.quotas.get().values == {
        (("client-id", None),): {"controller_mutation_rate": 0.5}
    }


async def test_parts_and_quotas_stand_in_kafkas_order(tmp_path: Path, io: IoThreads) -> None:
    """Whatever the order of the request: tests of clients compare the lists."""
    context = services(tmp_path, io)
    quotas = ("consumer_byte_rate", "producer_byte_rate", "request_percentage")
    asked = entry((("user", "a"), ("client-id", "b")), dict.fromkeys(quotas, 2.0))
    (altered,) = (await alter(context, AlterClientQuotasRequest([asked]))).entries
    (described,) = describe(context, DescribeClientQuotasRequest()).entries or ()

    for row in (altered, described):
        assert [part.entity_type for part in row.entity] == ["client-id", "user"]
    assert [each.key for each in described.values] == [*reversed(quotas)]


async def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, io: IoThreads) -> None:
    """It has two values."""
    context = services(tmp_path, io)
    twice = EntryData([EntityData("user", "a")], [OpData("request_percentage", 1.0)] * 2)
    (answer,) = (await alter(context, AlterClientQuotasRequest([twice]))).entries

    assert "request_percentage is named twice" in str(answer.error_message)


async def test_a_quota_that_is_not_there_can_be_removed(tmp_path: Path, io: IoThreads) -> None:
    """As in Apache Kafka; nothing is written."""
    removed = entry((("user", "a"),), {"producer_byte_rate": None})
    (answer,) = (await alter(services(tmp_path, io), AlterClientQuotasRequest([removed]))).entries

    assert (answer.error_code, answer.error_message) == (0, None)
    assert not (tmp_path / FILE_NAME).exists()


async def test_quotas_outlive_the_broker(tmp_path: Path) -> None:
    """Set over the wire in a first life, described in a second."""
    async with running(tmp_path / "data") as home:
        await set_quota(await home.call(), "producer_byte_rate", 10.0, (("user", None),))
    async with running(tmp_path / "data") as home:
        (described,) = (await (await home.call()).ask(request(48, 1))).entries

    assert [(each.entity_type, each.entity_name) for each in described.entity] == [("user", None)]
    assert [(each.key, each.value) for each in described.values] == [("producer_byte_rate", 10.0)]
