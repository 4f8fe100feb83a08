"""Rights of each API: a client without them is refused, with Apache Kafka's codes."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.net.faults import Faults
from siltstone.broker.security import rights
from siltstone.broker.security.acl import Operation, ResourceType
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.create_acls import AclCreation
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.delete_acls import DeleteAclsFilter
from siltstone.protocol.messages.delete_topics import DeleteTopicState
from tests.support.asking_as import DENIED, Guarded, a_guarded, codes_in, made

_OF_SETTINGS = {32, 33, 44}
KINDS = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
EMPTY = {16, 66}
"""Listings: what may not be seen is left out of them."""
REFUSED = [api for api in APIS if REQUIREMENTS[api.key]]


guarded = a_guarded("x")


def request_of(guarded: Guarded, api: Api, version: int) -> Any:
    """Return a request that names x wherever it can."""
    topic_id = guarded.home.services.topics.topics["x"].key
    request = made(api.load_messages()[0].struct, topic_id)
    if api.key == 3 and version < 12:
        return made(api.load_messages()[0].struct, NO_ID)
    if api.key == 30:
        row = AclCreation(2, "x", 3, "User:bob", "*", 3, 3)
        return request._replace(creations=[row])
    changes: dict[int, dict[str, Any]] = {
        0: {"acks": 1},
        1: {"session_epoch": 0},
        20: {"topics": [DeleteTopicState(None, topic_id)]},
        29: {"resource_type_filter": 1, "operation": 1, "permission_type": 1},
        31: {"filters": [DeleteAclsFilter(1, None, 1, None, None, 1, 1)]},
        75: {"cursor": None},
    }
    if api.key in _OF_SETTINGS:
        changes[api.key] = {"resources": [each._replace(resource_type=2) for each in request[0]]}
    return request._replace(**changes.get(api.key, {}))


@pytest.mark.parametrize("api", REFUSED, ids=lambda api: api.name)
async def test_who_may_nothing_is_refused(guarded: Guarded, api: Api) -> None:
    """By every API in every version, with one of Kafka's codes of rights and no other."""
    before = set(guarded.home.services.topics.topics)
    answers = {
        version: await guarded.ask(api.key, request_of(guarded, api, version), version)
        for version in api.versions
    }
    codes = {version: set(codes_in(each)) - {ErrorCode.none} for version, each in answers.items()}

    assert set(guarded.home.services.topics.topics) == before
    for version, answer in answers.items():
        if api.key in EMPTY:
            assert not codes[version], version
        elif api.key == 35 and version < 3:
            assert not answer.results, version
        else:
            assert codes[version], version
            assert codes[version] <= DENIED, version


@pytest.mark.parametrize("api", REFUSED, ids=lambda api: api.name)
async def test_who_may_everything_is_served(guarded: Guarded, api: Api) -> None:
    """The rules say so for every kind of resource; no answer has a code of rights."""
    for kind in KINDS:
        guarded.allow(Operation.ALL, kind)
    version = api.versions[-1]
    answer = await guarded.ask(api.key, request_of(guarded, api, version), version)

    assert not set(codes_in(answer)) & DENIED


NOT_ASKED = {"ListTransactions"}
"""No such thing exists to be listed."""


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_a_handler_asks_what_the_table_says(
    guarded: Guarded, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents are made from the table: a handler asks for nothing else, and for some of it."""
    asked: set[tuple[int, int]] = set()
    find = rights.Rights.sees

    def sees(client: rights.Rights, operation: int, resource: int, *name: str) -> bool:
        asked.add((operation, resource))
        return find(client, operation, resource, *name)

    def may_any(_: rights.Rights, operation: int, resource: int) -> bool:
        asked.add((operation, resource))
        return False

    monkeypatch.setattr(rights.Rights, "sees", sees)
    monkeypatch.setattr(rights.Rights, "may", sees)
    monkeypatch.setattr(rights.Rights, "may_any", may_any)
    version = api.versions[-1]
    if REQUIREMENTS[api.key]:
        for _ in range(2):  # without rights, and with all
            await guarded.ask(api.key, request_of(guarded, api, version), version)
            for kind in KINDS:
                guarded.allow(Operation.ALL, kind)
    needs = {(each.operation, each.resource) for each in REQUIREMENTS[api.key]}

    assert asked <= needs
    assert asked or not needs or api.name in NOT_ASKED


def test_handlers_have_kafkas_numbers() -> None:
    """Those of the types that rules are made of."""
    names = {name for name, each in vars(rights).items() if type(each) is int}
    kinds = {each.name for each in KINDS}

    assert kinds < names
    for name in names:
        assert getattr(rights, name) == (ResourceType if name in kinds else Operation)[name]


async def test_what_tests_plant_gives_no_rights(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that a fault of `siltstone.testing` lets pass is asked for its rights as before."""
    home = guarded.home
    dispatcher = Dispatcher(home.stats, guarded.changes)
    planted: list[Any] = []
    monkeypatch.setattr(dispatcher, "replace_handler", lambda _, handler: planted.append(handler))
    Faults(dispatcher).slow(BY_KEY[19], 0)
    (handle,) = planted
    request = CreateTopicsRequest([CreatableTopic("new", 1, 1)])
    answer = await handle(guarded.context(19), request)

    assert [each.error_code for each in answer.topics] == [ErrorCode.topic_authorization_failed]
    assert "new" not in home.services.topics.topics
