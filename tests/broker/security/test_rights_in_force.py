"""A permission is not judged again, until a rule changes; a refusal is told again."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.fetching import sessions as fetch_sessions
from siltstone.broker.security.acl import Operation, Permission, ResourceType
from siltstone.broker.security.authorizer import Authorizer
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from siltstone.protocol.messages.heartbeat import HeartbeatRequest
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.asking_as import DENIED, Guarded, a_guarded, codes_in, rule
from tests.support.batches import make_batch

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
EVE = "User:eve"


guarded = a_guarded("ab", coordinates=True)


@pytest.fixture
def questions(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The questions that the authorizer looks for in its rules."""
    asked: list[tuple[Any, ...]] = []
    look = type(guarded.authorizer)._decide

    def decide(authorizer: Authorizer, *question: Any) -> bool:
        asked.append(question)
        return look(authorizer, *question)

    monkeypatch.setattr(type(guarded.authorizer), "_decide", decide)
    return asked


def produce(key: str | bytes, *, flags: int = 0, transactional_id: str | None = None) -> Any:
    """Return a Produce of one batch for a topic, by its name or its id."""
    own = {"flags": flags, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    batch = memoryview(make_batch(1, **(own if flags else {})))
    name, topic_id = (key, NO_ID) if isinstance(key, str) else ("", key)
    row = TopicProduceData(name, topic_id, [PartitionProduceData(0, batch)])
    return ProduceRequest(transactional_id, 1, 1000, [row])


def fetch(*names: str, session: int = 0, epoch: int = -1, replica: int = -1) -> FetchRequest:
    """Return a Fetch that waits for nothing."""
    rows = [FetchPartition(0, partition_max_bytes=1000)]
    return FetchRequest(
        replica_id=replica,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(name, NO_ID, rows) for name in names],
    )


def commit(*names: str) -> OffsetCommitRequest:
    """Return an OffsetCommit for the group g."""
    rows = [OffsetCommitRequestPartition(0, 5)]
    return OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic(name, partitions=rows) for name in names]
    )


REQUESTS = {
    0: (9, produce("a"), (Operation.WRITE, TOPIC, "a")),
    1: (12, fetch("a"), (Operation.READ, TOPIC, "a")),
    8: (8, commit("a"), (Operation.READ, TOPIC, "a")),
    12: (4, HeartbeatRequest("g", 1, "nobody"), (Operation.READ, GROUP, "g")),
}
KEYS = pytest.mark.parametrize("key", REQUESTS)


def let_all(guarded: Guarded) -> None:
    """Let bob do everything with topics and groups."""
    guarded.allow(Operation.ALL, TOPIC)
    guarded.allow(Operation.ALL, GROUP)


async def refuses(guarded: Guarded, key: int, who: str = "User:bob") -> bool:
    """Return whether a request of an API is refused for want of rights."""
    version, request, _ = REQUESTS[key]
    return bool(DENIED & set(codes_in(await guarded.ask(key, request, version, who))))


@KEYS
async def test_what_was_permitted_is_not_judged_again(
    guarded: Guarded, questions: list[tuple[Any, ...]], key: int
) -> None:
    """The second request of the same kind asks no rule."""
    let_all(guarded)
    first = await refuses(guarded, key)
    asked = len(questions)
    second = await refuses(guarded, key)

    assert (first, second) == (False, False)
    assert 0 < asked == len(questions)


@KEYS
async def test_a_change_of_rules_bites_at_once(guarded: Guarded, key: int) -> None:
    """Both ways, after the right has been used."""
    let_all(guarded)
    operation, kind, name = REQUESTS[key][2]
    forbids = rule(operation, kind, name, Permission.DENY)
    told = []
    for change in (guarded.authorizer.add, guarded.authorizer.remove):
        told += [await refuses(guarded, key), await refuses(guarded, key)]
        change([forbids])
    told.append(await refuses(guarded, key))

    assert told == [False, False, True, True, False]


@KEYS
async def test_a_right_is_of_one_principal_and_one_host(guarded: Guarded, key: int) -> None:
    """A login as another on the same connection has nothing of what was permitted before."""
    let_all(guarded)
    served = await refuses(guarded, key)
    context = guarded.context(key, REQUESTS[key][0])
    guarded.ask_from(context, "User:bob", "198.51.100.9")
    operation, kind, name = REQUESTS[key][2]
    guarded.authorizer.add([rule(operation, kind, name, Permission.DENY, host="198.51.100.9")])

    assert not served
    assert await refuses(guarded, key, EVE)
    assert DENIED & set(codes_in(await guarded.answer(context, REQUESTS[key][1])))
    assert not await refuses(guarded, key)


@KEYS
async def test_every_refusal_is_told(guarded: Guarded, key: int) -> None:
    """The audit log has a line of the second as of the first: refusals are never remembered."""
    audit = guarded.home.services.security.audit
    assert audit is not None
    told: list[tuple[Any, ...]] = []
    audit.refused = lambda *what: told.append(what)  # type: ignore[method-assign]
    for _ in range(2):
        assert await refuses(guarded, key)

    assert len(told) == 2
    assert told[0] == told[1]


async def test_a_topic_that_is_made_again_is_judged_by_its_name(guarded: Guarded) -> None:
    """Whatever its id: the old one is unknown from then on."""
    topics = guarded.home.services.topics
    guarded.allow(Operation.WRITE, TOPIC, "a")
    old = topics.topics["a"].key
    served = await guarded.ask(0, produce(old))
    await topics.delete(topics.topics["a"])
    await topics.create("a", 1, {})
    gone = await guarded.ask(0, produce(old))
    again = await guarded.ask(0, produce(topics.topics["a"].key))

    assert [
        answer.responses[0].partition_responses[0].error_code for answer in (served, gone, again)
    ] == [ErrorCode.none, ErrorCode.unknown_topic_id, ErrorCode.none]


async def test_an_id_that_nobody_has_gives_no_right(guarded: Guarded) -> None:
    """It is passed on to be called unknown; a topic that has it later is judged."""
    topics = guarded.home.services.topics
    future = bytes(range(16))
    unknown = await guarded.ask(0, produce(future))
    topics.by_id[future] = topics.topics["b"]
    refused = await guarded.ask(0, produce(future))
    del topics.by_id[future]

    (one,), (two,) = unknown.responses, refused.responses
    assert one.partition_responses[0].error_code is ErrorCode.unknown_topic_id
    assert two.partition_responses[0].error_code is ErrorCode.topic_authorization_failed


async def test_a_transaction_is_judged_beside_its_topics(
    guarded: Guarded, questions: list[tuple[Any, ...]]
) -> None:
    """The right to write to a topic is not enough to do it in a transaction."""
    guarded.allow(Operation.WRITE, TOPIC, "a")
    guarded.allow(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "mine")
    denied = ErrorCode.transactional_id_authorization_failed
    codes = []
    await guarded.ask(0, produce("a"), 9)
    for name in ("mine", "mine", "other", None):
        before = len(questions)
        request = produce("a", flags=TRANSACTIONAL, transactional_id=name)
        answer = await guarded.ask(0, request, 9)
        code = answer.responses[0].partition_responses[0].error_code
        codes.append((code is denied, len(questions) - before))

    assert codes == [(False, 1), (False, 0), (True, 1), (True, 0)]


async def test_a_session_that_is_permitted_is_not_judged_again(
    guarded: Guarded, questions: list[tuple[Any, ...]]
) -> None:
    """Only what is read is judged, and all of it once: a session reads what has changed."""
    guarded.allow(Operation.READ, TOPIC)
    number = (await guarded.ask(1, fetch("a", "b", epoch=0), 12)).session_id
    await guarded.ask(1, fetch(session=number, epoch=1), 12)
    asked = len(questions)
    answer = await guarded.ask(1, fetch(session=number, epoch=2), 12)

    assert (answer.error_code, answer.session_id) == (ErrorCode.none, number)
    assert len(questions) == asked


def refused(answer: Any) -> list[str]:
    """Return the topics whose partitions are refused."""
    return [
        topic.topic
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code is ErrorCode.topic_authorization_failed
    ]


async def test_what_another_adds_to_a_session_is_judged(guarded: Guarded) -> None:
    """A client that reads on needs the right to each of its topics, also of another's naming."""
    guarded.allow(Operation.READ, TOPIC, "a")
    guarded.authorizer.add([rule(Operation.READ, TOPIC, principal=EVE)])
    number = (await guarded.ask(1, fetch("a", epoch=0), 12)).session_id
    own = await guarded.ask(1, fetch(session=number, epoch=1), 12)
    more = await guarded.ask(1, fetch("b", session=number, epoch=2), 12, who=EVE)
    after = await guarded.ask(1, fetch(session=number, epoch=3), 12)

    assert (refused(own), refused(more), refused(after)) == ([], [], ["b"])


async def test_a_session_that_is_not_there_is_not_remembered(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that names its number first has no right to it later."""
    guarded.allow(Operation.READ, TOPIC, "a")
    missing = ErrorCode.fetch_session_id_not_found
    await guarded.ask(1, fetch("a"), 12)
    guessed = await guarded.ask(1, fetch("a", session=77, epoch=1), 12)
    remembered = dict(guarded.home.services.sessions._read_by)
    monkeypatch.setattr(fetch_sessions, "random_session_id", lambda: 77)
    number = (await guarded.ask(1, fetch("b", epoch=0), 12, who="User:admin")).session_id
    taken = await guarded.ask(1, fetch(session=77, epoch=1), 12)

    assert (guessed.error_code, remembered, number) == (missing, {}, 77)
    assert refused(taken) == ["b"]


async def test_what_a_replica_adds_to_a_session_is_judged(guarded: Guarded) -> None:
    """A replica is asked for no topic, so what it names is nobody's right."""
    guarded.allow(Operation.READ, TOPIC, "a")
    guarded.authorizer.add([rule(Operation.CLUSTER_ACTION, CLUSTER, principal=EVE)])
    number = (await guarded.ask(1, fetch("a", epoch=0), 12)).session_id
    await guarded.ask(1, fetch(session=number, epoch=1), 12)
    more = await guarded.ask(1, fetch("b", session=number, epoch=2, replica=1), 12, who=EVE)
    after = await guarded.ask(1, fetch(session=number, epoch=3), 12)

    assert refused(more) == []
    assert refused(after) == ["b"]


async def test_a_replica_is_always_judged(guarded: Guarded) -> None:
    """A client that may read a topic may not say that it is a broker, in either field."""
    guarded.allow(Operation.READ, TOPIC, "a")
    served = await guarded.ask(1, fetch("a"), 12)
    old = await guarded.ask(1, fetch("a", replica=2), 12)
    key = guarded.home.services.topics.topics["a"].key
    rows = [FetchTopic("", key, [FetchPartition(0)])]
    request = fetch()._replace(topics=rows)
    await guarded.ask(1, request)
    new = await guarded.ask(1, request._replace(replica_state=ReplicaState(2)))

    assert not DENIED & set(codes_in(served))
    assert DENIED & set(codes_in(old))
    assert DENIED & set(codes_in(new))
