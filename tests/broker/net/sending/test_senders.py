"""Senders: every socket gets its range whole, and nobody waits for one that takes nothing."""

import asyncio
import errno
import gc
import os
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.sending.senders import Senders
from siltstone.broker.net.sending.threads import RETRY_SECONDS, SendingThreads
from siltstone.broker.net.tls import senders as tls_senders
from siltstone.broker.net.tls.senders import TlsSenders
from siltstone.broker.process.io import IoThreads
from siltstone.protocol.parts import FileSlice
from siltstone.storage.segment.open_file import SegmentFile
from tests.support.waiting import equals, give_turns_until, within

SIZE = 3 << 20

Opener = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture
async def senders() -> AsyncIterator[Senders]:
    """One thread: a caller that held it up would hold up all."""
    threads = Senders(1)
    yield threads
    threads.close()


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    """The bytes in a file."""
    data = random.Random(3).randbytes(SIZE)
    (tmp_path / "file").write_bytes(data)
    return data


@pytest.fixture
def open_pair() -> Iterator[Opener]:
    """Open connected sockets, ours and the client's, that are closed after the test."""
    opened: list[socket.socket] = []

    def open_() -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        for each in pair:
            each.setblocking(False)
        opened.extend(pair)
        return pair

    yield open_
    for each in opened:
        each.close()


def descriptors() -> int:
    """Return how many the process has open, when Python has closed those of other tests."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def part_of(folder: Path, position: int = 0, size: int = SIZE) -> FileSlice:
    """Return a range of the file, which nobody else keeps open."""
    return FileSlice(
        SegmentFile(os.open(folder / "file", os.O_RDONLY | os.O_CLOEXEC)), position, size
    )


def send(
    senders: Senders, ours: socket.socket, part: FileSlice, tail: bytes = b""
) -> asyncio.Future[int]:
    """Hand a range over and return a future of what is reported."""
    reported = asyncio.get_running_loop().create_future()
    senders.send(ours.fileno(), part, tail, reported.set_result)
    return reported


async def receive(client: socket.socket, size: int) -> bytes:
    """Receive so many bytes, fewer at the end of the stream."""
    received = bytearray()
    while len(received) < size:
        more = await asyncio.get_running_loop().sock_recv(client, size - len(received))
        if not more:
            break
        received += more
    return bytes(received)


@pytest.mark.parametrize("tail", [b"", b"\0", b"end", b"12345678", b"\xff" * 8])
async def test_a_range_is_followed_by_its_tail(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes, tail: bytes
) -> None:
    """Larger than a socket takes at once, from an odd position, again and again."""
    ours, client = open_pair()
    for position in (0, 1, 4097, 1_000_003):
        reported = send(senders, ours, part_of(tmp_path, position, SIZE - position), tail)
        expected = content[position:] + tail

        assert await receive(client, len(expected)) == expected
        assert await within(reported, "the report of the sender") == 0


async def test_sockets_do_not_wait_for_each_other(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes
) -> None:
    """Twenty get theirs while one takes nothing; it gets its own when it does."""
    stalled, late_client = open_pair()
    late = send(senders, stalled, part_of(tmp_path), b"late")
    pairs = [open_pair() for _ in range(20)]
    reports = [
        send(senders, ours, part_of(tmp_path, number, 1 << 20), b"%d" % number)
        for number, (ours, _) in enumerate(pairs)
    ]
    received = await asyncio.gather(
        *(
            receive(client, (1 << 20) + len(b"%d" % number))
            for number, (_, client) in enumerate(pairs)
        )
    )
    results = await within(asyncio.gather(*reports), "the report of the sender")

    for number, each in enumerate(received):
        assert each == content[number : number + (1 << 20)] + b"%d" % number
    assert results == [0] * 20
    assert not late.done()
    assert await receive(late_client, SIZE + 4) == content + b"late"
    assert await within(late, "the report of the sender") == 0


async def test_a_deleted_file_is_sent_whole(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes
) -> None:
    """A cleaner's swap or retention while a range is on its way: the range keeps the file open."""
    ours, client = open_pair()
    reported = send(senders, ours, part_of(tmp_path))
    start = await receive(client, 100_000)
    (tmp_path / "other").write_bytes(bytes(SIZE))
    (tmp_path / "other").replace(tmp_path / "file")

    assert start + await receive(client, SIZE - 100_000) == content
    assert await within(reported, "the report of the sender") == 0


async def test_a_client_that_leaves_is_reported(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes
) -> None:
    """In the middle of a range, while the sender waits for room."""
    ours, client = open_pair()
    reported = send(senders, ours, part_of(tmp_path))
    start = await receive(client, 1)
    client.close()

    assert start == content[:1]
    assert await within(reported, "the report of the sender") in {errno.EPIPE, errno.ECONNRESET}


async def test_our_own_shutdown_is_reported(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes
) -> None:
    """How a connection that waits for room is closed: the sender lets go of it at once."""
    ours, client = open_pair()
    reported = send(senders, ours, part_of(tmp_path))
    await receive(client, 1)
    ours.shutdown(socket.SHUT_RDWR)

    assert await within(reported, "the report of the sender") == errno.EPIPE
    assert content[1:].startswith(await receive(client, SIZE))


async def test_a_short_file_is_reported(
    senders: Senders, open_pair: Opener, tmp_path: Path, content: bytes
) -> None:
    """A range beyond the end is an error of the disk, not a client to wait for."""
    ours, client = open_pair()
    reported = send(senders, ours, part_of(tmp_path, 1 << 20))

    assert await receive(client, 2 << 20) == content[1 << 20 :]
    assert await within(reported, "the report of the sender") == errno.EIO


@pytest.mark.usefixtures("content")
async def test_closing_cancels_what_has_no_room(open_pair: Opener, tmp_path: Path) -> None:
    """The end of the broker does not wait for clients that read no more."""
    senders = Senders(3)
    reports = [send(senders, open_pair()[0], part_of(tmp_path)) for _ in range(5)]
    senders.close()

    assert await asyncio.gather(*reports) == [errno.ECANCELED] * 5


async def test_sockets_with_great_numbers_are_not_taken() -> None:
    """The table of what is to be sent has rows for descriptors up to a limit."""
    senders = Senders(1)
    limit = senders.max_sockets
    senders.close()

    assert limit >= 512
    assert not any(senders.can_take(limit << step) for step in range(20))


@pytest.mark.parametrize("lacking", ["pipe2", "eventfd", "thread", "second thread"])
@pytest.mark.parametrize("kind", ["plain", "TLS"])
async def test_senders_for_which_the_system_has_nothing(
    monkeypatch: pytest.MonkeyPatch, lacking: str, kind: str
) -> None:
    """The loop sends for a second, no descriptor is left over, and a later try succeeds."""
    io = IoThreads(1)
    sending = SendingThreads(io, 2)
    now = 100.0
    monkeypatch.setattr(sending, "_now", lambda: now)
    find = sending.find_senders if kind == "plain" else sending.find_tls_senders
    begun = 0

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    def start(thread: threading.Thread) -> None:
        nonlocal begun
        begun += 1
        if begun > (lacking == "second thread"):
            raise RuntimeError("can't start new thread")
        real_start(thread)

    real_start = threading.Thread.start
    before = descriptors()
    with monkeypatch.context() as full:
        if "thread" in lacking:
            full.setattr(threading.Thread, "start", start)
        else:
            full.setattr(os, lacking, refuse)
        gets_some = lacking == "second thread" or (lacking, kind) == ("pipe2", "TLS")
        assert (find() is not None) is gets_some
        if not gets_some:
            assert descriptors() == before

    assert (find() is not None) is gets_some
    now += RETRY_SECONDS
    assert find() is not None
    sending.close()
    io.close()
    assert descriptors() == before


async def test_a_fault_of_the_broker_ends_one_encrypted_answer(
    monkeypatch: pytest.MonkeyPatch, open_pair: Opener
) -> None:
    """And not the thread, which the answers of all others need."""
    encrypting = TlsSenders(1)
    reasons: list[str | Exception | None] = []

    def fail(*_: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(tls_senders, "_send", fail)
    for number in (1, 2):
        tls: Any = open_pair()[0]
        encrypting.send(tls, [b"answer"], reasons.append)
        await give_turns_until(lambda: len(reasons), "the end of an answer", equals(number))
    encrypting.close()

    assert [type(reason) for reason in reasons] == [MemoryError] * 2
