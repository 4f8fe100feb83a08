"""The requests of the persister, as a broker of Apache Kafka's reads the answers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.share.key import ShareKey
from siltstone.protocol.names import SHARE_STATE_TOPIC, uuid_text
from tests.broker.share.test_states import open_home
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import HOST, PORT, ServicesOnDisk

E = ErrorCode
INITIALIZE, READ, WRITE, DELETE, SUMMARIZE = range(83, 88)
NEWEST = {INITIALIZE: 0, READ: 0, WRITE: 1, DELETE: 0, SUMMARIZE: 1}
BATCH = {"first_offset": 10, "last_offset": 12, "delivery_state": 2, "delivery_count": 1}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Return a broker with the journal of queues and a topic."""
    home = await open_home(tmp_path)
    yield home
    await home.close()


async def call(home: ServicesOnDisk, key: int, *partitions: Any, group_id: str = "g") -> list[Any]:
    """Return the results of the topic's partitions."""
    topic_id = home.services.topics.topics["t"].id
    topics = [{"topic_id": topic_id, "partitions": list(partitions)}]
    answer = await ask(
        home, key, request(key, NEWEST[key], group_id=group_id, topics=topics), NEWEST[key]
    )
    return [each for result in answer.results for each in result.partitions]


async def test_a_queue_from_begin_to_end(home: ServicesOnDisk) -> None:
    """Initialized, written, read, summed up, deleted."""
    part = {"partition": 2}
    write = part | {"state_epoch": 1, "leader_epoch": 3, "start_offset": 10,
                    "delivery_complete_count": 3, "state_batches": [BATCH]}  # fmt: skip

    [begun] = await call(home, INITIALIZE, part | {"state_epoch": 1, "start_offset": 10})
    [written] = await call(home, WRITE, write)
    [read] = await call(home, READ, part | {"leader_epoch": 3})
    [told] = await call(home, SUMMARIZE, part | {"leader_epoch": 3})
    [deleted] = await call(home, DELETE, part)
    [none] = await call(home, SUMMARIZE, part | {"leader_epoch": 3})

    assert {each.error_code for each in (begun, written, read, told, deleted, none)} == {E.none}
    assert (read.state_epoch, read.start_offset) == (1, 10)
    [batch] = read.state_batches
    assert (batch.first_offset, batch.last_offset) == (10, 12)
    assert (batch.delivery_state, batch.delivery_count) == (2, 1)
    assert (told.leader_epoch, told.start_offset, told.delivery_complete_count) == (3, 10, 3)
    assert (none.state_epoch, none.start_offset, none.delivery_complete_count) == (0, -1, -1)


async def test_each_partition_has_its_own_refusal(home: ServicesOnDisk) -> None:
    """With Kafka's words, and the other fields at zero."""
    begun = await call(
        home,
        INITIALIZE,
        *({"partition": index, "state_epoch": 0, "start_offset": 0} for index in (0, -1, 9)),
    )
    [read] = await call(home, READ, {"partition": 1, "leader_epoch": 0})

    assert [(each.partition, each.error_code) for each in begun] == [
        (0, E.none), (-1, E.invalid_request), (9, E.unknown_topic_or_partition)
    ]  # fmt: skip
    assert begun[1].error_message == "The partition id cannot be a negative number."
    assert read.error_message == "Read operation on uninitialized share partition not allowed."
    assert (read.start_offset, read.state_epoch, read.state_batches) == (0, 0, ())


@pytest.mark.parametrize("key", [INITIALIZE, READ, WRITE, DELETE, SUMMARIZE])
async def test_requests_without_a_subject(home: ServicesOnDisk, key: int) -> None:
    """No group, no topic, or no partition: the answer is empty."""
    assert await call(home, key, {"partition": 0}, group_id="") == []
    assert await call(home, key) == []
    answer = await ask(home, key, request(key, NEWEST[key], group_id="g"), NEWEST[key])
    assert answer.results == ()


async def test_while_the_journal_does_not_exist(home: ServicesOnDisk) -> None:
    """NOT_COORDINATOR: FindCoordinator creates it."""
    await home.services.topics.delete(home.services.topics.topics[SHARE_STATE_TOPIC])
    [read] = await call(home, READ, {"partition": 1, "leader_epoch": 0})

    assert read.error_code is E.not_coordinator
    assert read.error_message.startswith("Unable to read share group state: ")


async def test_the_coordinator_of_a_queue(home: ServicesOnDisk) -> None:
    """FindCoordinator 6 makes the journal; a key that names no queue is refused alone."""
    await home.services.topics.delete(home.services.topics.topics[SHARE_STATE_TOPIC])
    topic_id = home.services.topics.topics["t"].id
    text = uuid_text(topic_id)
    keys = [f"a:b:{text}:3", f":{text}:3", "g:no-id:3", f"g:{text}:x", text, ""]
    answer = await ask(home, 10, request(10, 6, key_type=2, coordinator_keys=keys), 6)

    assert [(each.key, each.error_code) for each in answer.coordinators] == [
        (keys[0], E.none), *((key, E.invalid_request) for key in keys[1:])
    ]  # fmt: skip
    assert (answer.coordinators[0].host, answer.coordinators[0].port) == (HOST, PORT)
    assert SHARE_STATE_TOPIC in home.services.topics.topics
    assert ShareKey.parse(keys[0]) == ShareKey("a:b", topic_id, 3)
    assert str(ShareKey.parse(keys[0])) == keys[0]


@pytest.mark.parametrize(("version", "key_type"), [(5, 2), (6, 3)])
async def test_other_kinds_of_coordinators(
    home: ServicesOnDisk, version: int, key_type: int
) -> None:
    """Before version 6 there are no queues, and there is no fourth kind."""
    keys = ["g"]
    answer = await ask(
        home, 10, request(10, version, key_type=key_type, coordinator_keys=keys), version
    )

    assert [each.error_code for each in answer.coordinators] == [E.invalid_request]
