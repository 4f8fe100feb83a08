"""The rest in memory of what groups, offsets and transactions have refused."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as E

from tests.support import group_requests as requests
from tests.support.limited import groups_at, init_producer
from tests.support.running import Running

pytestmark = pytest.mark.slow

REFUSALS = 1_000
LONG = "n" * 2_000
MOST_BYTES = 1_000
"""A refusal may leave empty tuples, of which Python keeps two thousand; not its request."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Have memory traced, and freed only where nothing holds it."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def go_offline(home: Running) -> None:
    """Have the disk of the journal refuse everything."""
    home.logs.directories[0].fail(OSError(28, "planted"), for_good=True)


def consumer(group: str, number: int = 0, **said: Any) -> Any:
    """Return a join of the consumer protocol with a long member id of its own."""
    return requests.consumer_beat(group, f"{number}{LONG}", 0, **said)


def old_join(group: str) -> Any:
    """Return a JoinGroup of version 0, whose member is taken in at once."""
    return requests.old_join(group, metadata=bytes(8_000))


def metadata_of(size: int) -> tuple[tuple[str, bytes], ...]:
    """Return protocols of a classic member that has so much to say."""
    return (("range", bytes(size)),)


MANY_NAMES = tuple(f"{number}{LONG}" for number in range(5))
FULL = E.coordinator_load_in_progress
KINDS: dict[str, tuple[Callable[[int], Any], E, str]] = {
    "a new consumer group, too large for the journal": (
        lambda _: consumer("new", subscribed_topic_names=MANY_NAMES),
        E.unknown_server_error,
        "large",
    ),
    "a new consumer group, no room": (
        lambda _: consumer("new", subscribed_topic_names=MANY_NAMES),
        FULL,
        "full",
    ),
    "a new consumer group, no room for its expression": (
        lambda number: consumer(
            "new", subscribed_topic_names=(), subscribed_topic_regex=f"{number}[a-z]{{999}}"
        ),
        FULL,
        "full",
    ),
    "a new consumer group, a full disk": (lambda _: consumer("new"), E.not_coordinator, "offline"),
    "a consumer group that does not exist": (
        lambda number: requests.consumer_beat("new", f"{number}{LONG}", 7),
        E.group_id_not_found,
        "",
    ),
    "another member, no room": (
        lambda number: consumer("there", number, subscribed_topic_names=MANY_NAMES),
        FULL,
        "full",
    ),
    "another member, a full disk": (
        lambda number: consumer("there", number),
        E.not_coordinator,
        "offline",
    ),
    "another member, too large for the journal": (
        lambda number: consumer("there", number, subscribed_topic_names=MANY_NAMES),
        E.unknown_server_error,
        "large",
    ),
    "another member with another expression, a full disk": (
        lambda number: consumer(
            "there", number, subscribed_topic_names=(), subscribed_topic_regex=f"a{number}"
        ),
        E.not_coordinator,
        "offline",
    ),
    "a new classic group, no room for its name": (
        lambda _: requests.join(LONG, protocols=metadata_of(8_000)),
        FULL,
        "full",
    ),
    "a new classic group, a full disk": (
        lambda _: requests.join("new", protocols=metadata_of(8_000)),
        E.not_coordinator,
        "offline",
    ),
    "a classic group that does not exist": (
        lambda number: requests.join("new", f"{number}{LONG}"),
        E.unknown_member_id,
        "",
    ),
    "another classic member, no room": (
        lambda number: requests.join(
            "classic", instance_id=f"{number}{LONG}", protocols=metadata_of(8_000)
        ),
        FULL,
        "full",
    ),
    "another classic member of version 0, no room": (lambda _: old_join("classic"), FULL, "full"),
    "a classic member too large for any record": (
        lambda _: requests.join("classic", instance_id="i", protocols=metadata_of(100_000)),
        E.group_max_size_reached,
        "large",
    ),
    "a commit of a new group, a full disk": (
        lambda number: requests.commit(f"{number}{LONG}", {("t", 0): 7}),
        E.not_coordinator,
        "offline",
    ),
    "a commit of a new group, no room": (
        lambda number: requests.commit(f"{number}{LONG}", {("t", 0): 7}),
        E.invalid_commit_offset_size,
        "no offsets",
    ),
    "a transactional id, no room": (
        lambda number: init_producer(f"{number}{LONG}"),
        E.policy_violation,
        "full",
    ),
}


def code_of(answer: Any) -> E:
    """Return the code of an answer, whichever it is."""
    if hasattr(answer, "topics"):
        return E(answer.topics[0].partitions[0].error_code)
    return E(answer.error_code)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_refused_leaves_nothing(kind: str, tmp_path: Path) -> None:
    """A thousand times, without the garbage collector: neither objects nor counted bytes."""
    make, code, state = KINDS[kind]
    sets = [
        "group.members.max.bytes=1000000000",
        "transaction.state.log.num.partitions=1",
        "message.max.bytes=5000" if state == "large" else "message.max.bytes=1000000",
    ]
    async with groups_at(tmp_path, *sets) as (home, caller):
        await home.topics.create("t", 1, {})
        await caller.ask(requests.find("a", 1))
        await caller.ask(requests.consumer_beat("there", "m", 0))
        await caller.ask(requests.join("classic", session_ms=600_000))  # longer than the test
        if state == "offline":
            go_offline(home)
        elif state == "full":
            room = str(home.groups.member_bytes.size + 3_000)  # a group's, but not a member's
            limits = {"group.members.max.bytes": room, "transactional.ids.max.bytes": "100"}
            await home.broker._settings.alter(cluster=limits)
        elif state == "no offsets":
            await home.broker._settings.alter(cluster={"group.offsets.max.bytes": "100"})
        members = home.groups.member_bytes
        for _ in chain(home.broker._dispatcher.preload(), home.broker.coordinators.preload()):
            pass  # it imports later what it has not needed yet
        for number in range(50):  # what is made once, by the broker and by this client
            assert code_of(await caller.ask(make(number))) == code
        before, groups = members.size, len(home.groups.groups)
        with no_collection():
            for number in range(50):
                await caller.ask(make(number))
            held, _ = tracemalloc.get_traced_memory()
            for number in range(REFUSALS):
                assert code_of(await caller.ask(make(number))) == code
            left = tracemalloc.get_traced_memory()[0] - held

        assert members.size <= before  # a session may have ended meanwhile
        assert len(home.groups.groups) == groups
        assert left < REFUSALS * MOST_BYTES
