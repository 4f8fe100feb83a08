"""The commonest commit and heartbeat: answered as the handlers do, or nothing done at all."""

from __future__ import annotations

from inspect import isawaitable
from io import BytesIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from broker.groups import commit_kernels
from broker.groups.classic_group import ClassicGroup
from broker.groups.states import GroupState
from broker.handlers import offset_commit
from protocol.coordinator.group_records import GroupMetadata, MemberMetadata
from protocol.records.choosing import load_uncompiled
from tests.support import group_requests as ask
from tests.support.rooms import RoomsOnDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from storage.log import Log

PLAIN = load_uncompiled("broker.groups._commit_kernels")
BOTH = pytest.mark.parametrize("kernel", [commit_kernels, PLAIN], ids=["chosen", "plain"])
MEMBER = ("m", 3, None)
NOBODY = ("", -1, None)
ORDERS = {("orders", 1): 42}
SESSION_MS = 10_000
MOST_METADATA = 100


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[RoomsOnDisk]:
    """The topic orders of two partitions, the stable group "g" of "m" and the empty one "alone"."""
    rooms = RoomsOnDisk(
        tmp_path / "root",
        offsets_topic_num_partitions="1",
        offset_metadata_max_bytes=str(MOST_METADATA),
    )
    await rooms.open()
    await rooms.rooms.topics.create("orders", 2, {})
    groups = rooms.rooms.groups
    await groups.log.ensure_created()
    groups.add_classic("alone")
    group = groups.add_classic("g")
    group.restore(_metadata())
    group.resume()
    yield rooms
    await rooms.close()


def _metadata() -> GroupMetadata:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=20_000,
        session_timeout_ms=SESSION_MS,
        subscription=b"",
        assignment=b"",
    )
    return GroupMetadata(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        state_timestamp=0,
        members=(member,),
    )


def _journal(home: RoomsOnDisk) -> Log:
    return home.rooms.topics.logs["__consumer_offsets", 0]


def _group(home: RoomsOnDisk) -> ClassicGroup:
    group = home.rooms.groups.find("g")
    assert isinstance(group, ClassicGroup)
    return group


def _body(request: Any) -> memoryview:
    body = BytesIO()
    entity_writer(type(request))(body, request)
    return memoryview(bytearray(body.getvalue()))


def _commit(kernel: Any, home: RoomsOnDisk, request: Any) -> bytes | None:
    body = _body(request)
    groups = home.rooms.groups
    answer: bytes | None = kernel.GroupTable.commit_one(groups, 8, 7, body, 0, len(body))
    return answer


def _beat(kernel: Any, home: RoomsOnDisk, request: Any) -> bytes | None:
    body = _body(request)
    answer: bytes | None = kernel.GroupTable.beat_one(home.rooms.groups, 7, body, 0, len(body))
    return answer


def _read(key: int, version: int, frame: bytes) -> Any:
    kind = load_response_schema(key, version)
    header, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    assert header.correlation_id == 7
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return entity_reader(kind)(frame[4:], size)[0]


@BOTH
@pytest.mark.parametrize(
    ("group", "member", "metadata"),
    [("alone", NOBODY, ""), ("g", MEMBER, None), ("g", ("m", 3, "i"), "läuft")],
)
async def test_a_commit_is_in_the_journal_when_it_is_answered(
    kernel: Any, home: RoomsOnDisk, group: str, member: Any, metadata: str | None
) -> None:
    """One batch of one record, the value that is served from then on, and the code 0."""
    before = _journal(home).log_end_offset
    request = ask.commit(group, ORDERS, member=member, metadata=metadata)

    frame = _commit(kernel, home, request)

    assert frame is not None
    answer = _read(8, 8, frame)
    rows = [
        (topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions
    ]
    assert rows == list(ORDERS)
    assert answer.topics[0].partitions[0].error_code.value == 0
    assert _journal(home).log_end_offset == before + 1
    offsets = home.rooms.groups.offsets
    found = offsets.find(group, "orders", 1)
    assert found is not None
    assert (found.offset, found.metadata) == (42, metadata or "")
    assert found.commit_timestamp == home.clock.now_ms()
    assert (offsets.count, offsets.commit_count) == (1, 1)


def _prepare(state: GroupState) -> Callable[[RoomsOnDisk], None]:
    def prepare(home: RoomsOnDisk) -> None:
        _group(home).state = state

    return prepare


def _load(home: RoomsOnDisk) -> None:
    home.rooms.groups.log._loading.add(0)


def _go_offline(home: RoomsOnDisk) -> None:
    journal = _journal(home)
    journal.directory.fail(OSError(5, "planted"), for_good=True)


def _nothing(_: RoomsOnDisk) -> None:
    """Leave everything as it is."""


UNANSWERED: dict[str, tuple[Any, Callable[[RoomsOnDisk], None]]] = {
    "another generation": (ask.commit("g", ORDERS, member=("m", 2, None)), _nothing),
    "no member": (ask.commit("g", ORDERS, member=("n", 3, None)), _nothing),
    "nobody, in a group with members": (ask.commit("g", ORDERS), _nothing),
    "an instance id of nobody": (ask.commit("g", ORDERS, member=("m", 3, "j")), _nothing),
    "another member's instance id": (ask.commit("g", ORDERS, member=("n", 3, "i")), _nothing),
    "a group that is not there": (ask.commit("new", ORDERS), _nothing),
    "no such topic": (ask.commit("alone", {("no", 0): 1}), _nothing),
    "no such partition": (ask.commit("alone", {("orders", 2): 1}), _nothing),
    "a negative partition": (ask.commit("alone", {("orders", -1): 1}), _nothing),
    "two partitions": (ask.commit("alone", {("orders", 0): 1, ("orders", 1): 1}), _nothing),
    "before the sync": (
        ask.commit("g", ORDERS, member=MEMBER),
        _prepare(GroupState.COMPLETING),
    ),
    "a dead group": (ask.commit("g", ORDERS, member=MEMBER), _prepare(GroupState.DEAD)),
    "while it is loaded": (ask.commit("alone", ORDERS), _load),
    "a disk that refuses": (ask.commit("alone", ORDERS), _go_offline),
}


@BOTH
@pytest.mark.parametrize("name", UNANSWERED)
async def test_what_is_refused_or_rare_is_left_to_the_handler(
    kernel: Any, home: RoomsOnDisk, name: str
) -> None:
    """No answer, nothing written, nothing remembered."""
    request, prepare = UNANSWERED[name]
    prepare(home)
    before = _journal(home).log_end_offset

    assert _commit(kernel, home, request) is None

    assert _journal(home).log_end_offset == before
    assert home.rooms.groups.offsets.count == 0


@BOTH
async def test_metadata_as_long_as_the_setting_is_taken(kernel: Any, home: RoomsOnDisk) -> None:
    """One more character is left to the handler, which refuses it."""
    longest = "m" * MOST_METADATA

    assert _commit(kernel, home, ask.commit("alone", ORDERS, metadata=longest + "m")) is None
    assert _commit(kernel, home, ask.commit("alone", ORDERS, metadata=longest)) is not None


@BOTH
async def test_a_commit_is_a_sign_of_life(kernel: Any, home: RoomsOnDisk) -> None:
    """A member that commits within its session time stays, without a heartbeat."""
    for _ in range(3):
        home.clock.advance(SESSION_MS - 1)
        assert _commit(kernel, home, ask.commit("g", ORDERS, member=MEMBER)) is not None
        home.rooms.groups.timers.run_due()
    assert "m" in _group(home).members.by_id


@BOTH
async def test_a_heartbeat_keeps_a_member(kernel: Any, home: RoomsOnDisk) -> None:
    """It is answered without an error, and the session begins anew."""
    for instance_id in (None, "i", None):
        home.clock.advance(SESSION_MS - 1)
        frame = _beat(kernel, home, ask.beat("g", "m", 3, instance_id))
        assert frame is not None
        assert _read(12, 4, frame).error_code.value == 0
        home.rooms.groups.timers.run_due()
    assert "m" in _group(home).members.by_id
    home.clock.advance(SESSION_MS)
    home.rooms.groups.timers.run_due()
    assert "m" not in _group(home).members.by_id


@BOTH
@pytest.mark.parametrize(
    ("request_", "prepare"),
    [
        (ask.beat("g", "m", 2), _nothing),
        (ask.beat("g", "n", 3), _nothing),
        (ask.beat("g", "n", 3, "i"), _nothing),
        (ask.beat("no", "m", 3), _nothing),
        (ask.beat("", "m", 3), _nothing),
        (ask.beat("g", "m", 3), _prepare(GroupState.PREPARING)),
        (ask.beat("g", "m", 3), _prepare(GroupState.DEAD)),
        (ask.beat("g", "m", 3), _load),
    ],
)
async def test_a_heartbeat_with_something_against_it_is_left_to_the_handler(
    kernel: Any, home: RoomsOnDisk, request_: Any, prepare: Callable[[RoomsOnDisk], None]
) -> None:
    """There is no answer here."""
    prepare(home)

    assert _beat(kernel, home, request_) is None


async def test_a_commit_waits_for_the_flush_that_the_journal_asks_for(tmp_path: Path) -> None:
    """With flush.messages=1 the answer is a coroutine, and the offset is on the disk after it."""
    rooms = await RoomsOnDisk(tmp_path / "root", offsets_topic_num_partitions="1").open()
    await rooms.rooms.topics.create("orders", 2, {})
    await rooms.rooms.topics.create("__consumer_offsets", 1, {"flush.messages": "1"})
    rooms.rooms.groups.add_classic("alone")
    journal = _journal(rooms)
    body = _body(ask.commit("alone", ORDERS))
    waiting = offset_commit.handle(SimpleNamespace(rooms=rooms.rooms), 8, 7, body, 0, len(body))  # type: ignore[arg-type]

    assert isawaitable(waiting)
    assert (journal.log_end_offset, journal.recovery_point) == (1, 0)
    answer = _read(8, 8, await waiting)  # type: ignore[arg-type]

    assert answer.topics[0].partitions[0].error_code.value == 0
    assert (journal.log_end_offset, journal.recovery_point) == (1, 1)
    assert not rooms.rooms.groups.log.unflushed
    await rooms.close()
