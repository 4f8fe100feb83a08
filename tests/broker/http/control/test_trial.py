"""Orders of a test to the broker: time that passes, and requests that fail, over a socket."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.http.control.token import read_token
from siltstone.broker.net.faults import EXEMPT
from siltstone.broker.process.trial import Trial
from siltstone.broker.server import Broker
from siltstone.config.load import load
from siltstone.storage.clock import Clock
from tests.support import group_requests as group
from tests.support.batches import make_batch, make_producer_batch
from tests.support.clock import now
from tests.support.common_requests import metadata
from tests.support.http_client import ask
from tests.support.kio_messages import request
from tests.support.produce_requests import request_entity
from tests.support.running import Caller, Running
from tests.support.waiting import give_turns_until

HOUR_MS = 3_600_000


class Trying(Running):
    """A broker that a test may move and break."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        super().__init__(broker)
        self._headers = f"Authorization: Bearer {read_token(folder)}\r\n"

    async def post(self, page: str, status: int = 200, *, body: bytes = b"") -> str:
        """Ask a page of the trial and return its answer."""
        port = int(self.broker.describe()["http"].rpartition(":")[2])
        answer = await ask(port, f"/v1/trial/{page}", "POST", headers=self._headers, body=body)
        assert answer.status == status, answer.body
        return answer.body.decode()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Trying]:
    """A broker on trial, with the topics orders and bills."""
    trial = Trial(moves_clock=True, makes_faults=True)
    sets = ("listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0")
    quick = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3")
    layers = load(None, {}, [f"log.dirs={tmp_path}", *sets, *quick])
    broker = Broker(layers, trial.make_clock(), asyncio.Event(), trial)
    try:
        await broker.start()
        for name in ("orders", "bills"):
            await broker.topics.create(name, 1, {})
        started = Trying(broker, tmp_path)
        yield started
        await started.close()
    finally:
        await broker.stop()


def produce(*topics: str, acks: int = 1, records: bytes | None = None) -> Any:
    """Return a Produce of version 9: one batch into partition 0 of each topic."""
    batch = bytes(make_batch(timestamp=now())) if records is None else records
    return request_entity(9, acks, 1000, None, [(topic, [(0, batch)]) for topic in topics])


def errors_of(answer: Any) -> list[ErrorCode]:
    """Return the code of each partition of a Produce."""
    return [each.error_code for topic in answer.responses for each in topic.partition_responses]


# Time


async def test_retention(home: Trying) -> None:
    """A week of it is Kafka's default."""
    (log,) = home.topics.topics["orders"].logs
    assert log is not None
    await (await home.call()).ask(produce("orders"))

    await home.post(f"clock?advance_ms={24 * HOUR_MS}")
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    told = json.loads(await home.post(f"clock?advance_ms={7 * 24 * HOUR_MS}"))

    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    assert told["ahead_ms"] == 8 * 24 * HOUR_MS
    assert abs(told["now_ms"] - told["ahead_ms"] - Clock().now_ms()) < HOUR_MS


async def test_sessions(home: Trying) -> None:
    """A member that has not been heard of since is gone before the answer comes."""
    caller = await home.call()
    await give_turns_until(
        lambda: caller.ask(group.find("g")),
        "the coordinator",
        lambda answer: answer.coordinators[0].error_code is ErrorCode.none,
    )
    first = await caller.ask(group.join("g"))
    joined = await caller.ask(group.join("g", first.member_id))
    assert joined.error_code is ErrorCode.none

    await home.post("clock?advance_ms=60000")

    beat = await caller.ask(group.beat("g", joined.member_id, joined.generation_id))
    assert beat.error_code is ErrorCode.unknown_member_id


async def test_producers(home: Trying) -> None:
    """An idempotent producer is forgotten after a day."""
    (log,) = home.topics.topics["orders"].logs
    assert log is not None
    batch = bytes(make_producer_batch(0))
    assert errors_of(await (await home.call()).ask(produce("orders", records=batch))) == [
        ErrorCode.none
    ]
    assert len(log.producers.producers) == 1

    await home.post(f"clock?advance_ms={25 * HOUR_MS}")

    assert not log.producers.producers


async def test_nothing_is_asked_before_it_is_there(home: Trying) -> None:
    """Without a group there is no coordinator, and time that passes makes none."""
    await home.post("clock?advance_ms=60000")

    assert home.broker.coordinators.built is None or not home.groups.groups


# Faults


async def test_a_request_fails_as_often_as_asked(home: Trying) -> None:
    """And nothing of it is stored."""
    caller = await home.call()
    (log,) = home.topics.topics["orders"].logs
    assert log is not None
    await home.post("fail?api=Produce&error=NOT_LEADER_OR_FOLLOWER&times=2")

    answers = [await caller.ask(produce("orders")) for _ in range(3)]

    failed = ErrorCode.not_leader_or_follower
    assert [errors_of(each) for each in answers] == [[failed], [failed], [ErrorCode.none]]
    assert log.log_end_offset == 1


async def test_faults_come_in_their_order(home: Trying) -> None:
    """Each for requests that it is about."""
    caller = await home.call()
    await home.post("fail?api=Produce&error=INVALID_RECORD&topic=bills")
    await home.post("fail?api=Produce&error=REQUEST_TIMED_OUT")

    answers = [
        errors_of(await caller.ask(produce(*topics)))
        for topics in (["orders"], ["orders", "bills"], ["bills"])
    ]

    late, bad = ErrorCode.request_timed_out, ErrorCode.invalid_record
    assert answers == [[late], [bad, bad], [ErrorCode.none]]


async def test_who_prepares_the_test_is_spared(home: Trying) -> None:
    """By its client id."""
    caller = await home.call()
    await home.post("fail?api=Produce&error=INVALID_RECORD")

    caller.client_id = EXEMPT
    spared = await caller.ask(produce("orders"))
    caller.client_id = "application"
    failed = await caller.ask(produce("orders"))

    assert [errors_of(spared), errors_of(failed)] == [[ErrorCode.none], [ErrorCode.invalid_record]]


async def test_connections_that_close(home: Trying) -> None:
    """Because it was asked for, or because nobody waits for an answer that could say it."""
    for page, acks in (("error=DISCONNECT", 1), ("error=INVALID_RECORD", 0)):
        await home.post(f"fail?api=Produce&{page}")
        client = await home.connect()
        await client.send(Caller(client).frame(produce("orders", acks=acks)))
        assert await client.is_closed()


async def test_metadata_fails_without_the_loss_of_the_broker(home: Trying) -> None:
    """The topics are in error, all of them without a name; the broker is still told."""
    caller = await home.call()
    await home.post("fail?api=Metadata&error=LEADER_NOT_AVAILABLE&times=2")

    named = metadata("orders", "new", create=True)
    answers = [await caller.ask(each) for each in (named, request(3, 12))]

    for answer in answers:
        assert [each.port for each in answer.brokers] == [home.listeners[0].port]
        assert {each.error_code for each in answer.topics} == {ErrorCode.leader_not_available}
    assert [each.name for each in answers[0].topics] == ["orders", "new"]
    assert {each.name for each in answers[1].topics} >= {"orders", "bills"}
    assert "new" not in home.topics.topics


async def test_a_slow_disk_holds_up_nobody_else(home: Trying) -> None:
    """The records are those that were sent, though the frame's memory is used again meanwhile."""
    (log,) = home.topics.topics["orders"].logs
    assert log is not None
    slow, other = await home.call(), await home.call()
    await home.post("slow?what=append&seconds=0.3")

    began = time.monotonic()
    requests = [produce("orders", records=bytes(make_batch(size))) for size in (3, 5)]
    for each in requests:
        await slow.client.send(slow.frame(each))
    await other.ask(metadata())
    assert log.log_end_offset == 0
    for each in requests:
        assert errors_of(await slow.receive(each)) == [ErrorCode.none]

    assert time.monotonic() - began >= 0.6
    assert log.log_end_offset == 8


async def test_afterwards_requests_have_their_own_handler(home: Trying) -> None:
    """So that they cost what they did before."""
    dispatcher = home.broker._dispatcher
    routes = {key: each for key, each in dispatcher._routes.items() if each.api.is_preloaded}
    before = {key: route.api.load() for key, route in routes.items()}
    await home.post("fail?api=Produce&error=INVALID_RECORD&times=1000")
    await home.post("slow?what=read&seconds=1000")
    for _ in dispatcher.preload():
        pass
    replaced = {key for key, route in routes.items() if route.handler is not before[key]}
    assert replaced == {0, 1}

    await home.post("reset")

    after = {key: route.handler for key, route in routes.items()}
    assert after == before


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("clock?advance_ms=-1", "advance_ms=-1 is not a number from 0 to "),
        ("clock?advance_ms=nan", "advance_ms=nan is not a number from 0 to "),
        ("fail?api=Produce", "'' is no error of Kafka's; "),
        ("fail?error=DISCONNECT", "'' is no API that this broker serves; Produce is one"),
        ("fail?api=Produce&error=DISCONNECT&times=x", "times=x is not a number from 0 to "),
        ("slow?what=disk&seconds=1", "'disk' is no API that this broker serves; "),
        ("slow?what=append&seconds=4000", "seconds=4000 is not a number from 0 to 3600"),
    ],
)
async def test_nonsense_is_a_400(home: Trying, page: str, sentence: str) -> None:
    """In one sentence, and nothing has changed."""
    assert sentence in await home.post(page, 400)
    assert errors_of(await (await home.call()).ask(produce("orders"))) == [ErrorCode.none]


# What is undone


async def test_quotas_and_settings_of_groups_and_clients_are_put_back(home: Trying) -> None:
    """The answer afterwards is the one of before, or what was made of it."""
    before = await home.post("state")
    changed = json.loads(before) | {
        "groups": {"billing": {"consumer.session.timeout.ms": "50000"}},
        "client_metrics": {"cpu": {"interval.ms": "1000"}},
        "quotas": [{"entity": {"user": "ada"}, "quotas": {"producer_byte_rate": 1.0}}],
        "broker": {"message.max.bytes": "1000"},
    }

    await home.post("restore", body=json.dumps(changed).encode())
    assert json.loads(await home.post("state")) == changed

    await home.post("restore", body=before.encode())
    assert await home.post("state") == before


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"nonsense", b'{"cluster": 7}'])
async def test_nonsense_is_not_put_back(home: Trying, body: bytes) -> None:
    """The sentence says what is wanted."""
    said = await home.post("restore", 400, body=body)

    assert "/v1/trial/restore wants what /v1/trial/state has answered" in said
