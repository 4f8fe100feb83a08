"""Sending: bytes and file ranges leave in order, whatever the socket takes and the disk holds."""

import asyncio
import gc
import os
import random
import socket
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.channel import PlainChannel
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.process.io import IoThreads
from siltstone.protocol.parts import FileSlice, Parts
from tests.support.waiting import equals, give_turns_until, within


class OpenFile:
    """A file that a slice keeps open."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


@pytest.fixture(params=[0, 2], ids=["loop", "senders"])
async def sending(request: pytest.FixtureRequest) -> AsyncIterator[SendingThreads]:
    """One thread for cold reads, and the senders of large ranges."""
    threads = SendingThreads(IoThreads(1), request.param)
    yield threads
    threads.close()
    threads.io.close()


@pytest.fixture
def content(disk_path: Path) -> tuple[FileSlice, bytes]:
    """A file of 3 MiB, as a slice and as bytes."""
    data = random.Random(7).randbytes(3 << 20)
    path = disk_path / "file"
    path.write_bytes(data)
    return FileSlice(OpenFile(path), 0, len(data)), data


async def _receive(client: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < size:
        more = await loop.sock_recv(client, 1 << 20)
        if not more:
            break
        received += more
    return bytes(received)


async def _exchange(
    sending: SendingThreads, parts: Parts, expected: bytes
) -> list[str | Exception]:
    """Send ``parts`` through a channel and return why it was lost, if it was."""
    client, server = socket.socketpair()
    client.setblocking(False)
    server.setblocking(False)
    lost: list[str | Exception] = []
    drained = asyncio.Event()
    channel = PlainChannel(
        asyncio.get_running_loop(), server.detach(), sending, drained.set, lost.append
    )
    channel.send(parts)
    received = await _receive(client, len(expected))
    if channel.unsent:
        await within(drained.wait(), "a drained channel")
    channel.close()
    client.close()

    assert received == expected
    return lost


async def test_a_large_range_goes_out_between_bytes(
    sending: SendingThreads, content: tuple[FileSlice, bytes]
) -> None:
    """A fetch response: head, file range, tail, larger than any socket buffer."""
    whole, data = content

    assert not await _exchange(sending, [b"head", whole, b"tail"], b"head" + data + b"tail")


async def test_small_ranges_are_joined(
    sending: SendingThreads, content: tuple[FileSlice, bytes]
) -> None:
    """Two hundred small ranges and their heads arrive in order."""
    whole, data = content
    parts: Parts = []
    expected = b""
    for number in range(200):
        piece = FileSlice(whole.file, number * 7_000, 5_000)
        parts += [b"%03d" % number, piece]
        expected += b"%03d" % number + data[piece.position : piece.position + piece.size]

    assert not await _exchange(sending, parts, expected)


async def test_empty_parts_take_no_time(
    sending: SendingThreads, content: tuple[FileSlice, bytes]
) -> None:
    """The end of an old fetch response is no bytes at all; it must not be tried for ever."""
    small = FileSlice(content[0].file, 0, 10)

    assert not await _exchange(sending, [b"x", small, b""], b"x" + content[1][:10])
    assert not await _exchange(sending, [b"", b""], b"")


async def test_a_fault_of_the_broker_ends_the_channel(
    content: tuple[FileSlice, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for ever for a thread that the system does not give."""
    io = IoThreads(1)
    client, server = socket.socketpair()
    server.setblocking(False)
    lost: list[str | Exception] = []
    channel = PlainChannel(
        asyncio.get_running_loop(),
        server.detach(),
        SendingThreads(io, 0),
        lambda: None,
        lost.append,
    )
    channel.send([bytes(1 << 24)])

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(PlainChannel, "flush", fail)
    channel._find_outlet().resume()
    channel.close()
    client.close()
    io.close()

    assert [str(fault) for fault in lost] == ["can't start new thread"]


class Holder:
    """A connection, as far as its channel knows one."""

    def __init__(self, sending: SendingThreads, fileno: int) -> None:
        loop = asyncio.get_running_loop()
        self.channel = PlainChannel(loop, fileno, sending, self.resume, self.close)

    def resume(self) -> None:
        """Take no notice."""

    def close(self, _why: str | Exception = "") -> None:
        """Close the channel."""
        self.channel.close()


@pytest.mark.parametrize("size", [0, 8 << 20])
async def test_who_had_a_closed_channel_is_gone(sending: SendingThreads, size: int) -> None:
    """At once, also where something had to wait for room: no garbage has to be looked for."""
    client, server = socket.socketpair()
    server.setblocking(False)
    gc.disable()
    try:
        holder = Holder(sending, server.detach())
        holder.channel.send([bytes(size)])
        assert bool(holder.channel.unsent) == bool(size)
        holder.close()
        held = weakref.ref(holder)
        del holder
    finally:
        gc.enable()
    client.close()

    assert held() is None


class CountingThreads(IoThreads):
    """Threads that count what they are asked for."""

    asked = 0

    def run(self, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Count, and run it."""
        self.asked += 1
        return super().run(*args, **kwargs)


_FORGETS = 20  # the kernel keeps a page that it is busy with


def _forget(file: OpenFile) -> None:
    """Let the kernel forget the pages of a file, as far as it likes."""
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("size", [50, 3 << 20])
async def test_cold_pages_are_fetched_on_a_thread(
    content: tuple[FileSlice, bytes], size: int
) -> None:
    """A page that is not in memory makes the channel wait for an io thread, not the loop."""
    whole, data = content
    io = CountingThreads(1)
    sending = SendingThreads(io, 0)
    piece = FileSlice(whole.file, 0, size)

    for _ in range(_FORGETS):
        _forget(whole.file)  # type: ignore[arg-type]  # the test's own
        assert not await _exchange(sending, [b"x", piece, b"y"], b"x" + data[:size] + b"y")
        if io.asked:
            break
    assert io.asked, "nothing was cold; a file system in memory forgets nothing"

    io.asked = 0
    assert not await _exchange(sending, [b"x", piece, b"y"], b"x" + data[:size] + b"y")
    assert not io.asked
    sending.io.close()


@pytest.mark.parametrize("size", [1_000, 1 << 20])
async def test_a_file_that_is_too_short_loses_the_connection(
    sending: SendingThreads, tmp_path: Path, size: int
) -> None:
    """A truncated file must not look like a slow one."""
    path = tmp_path / "short"
    path.write_bytes(bytes(10))
    os.truncate(path, 10)
    client, server = socket.socketpair()
    server.setblocking(False)
    lost: asyncio.Future[str | Exception] = asyncio.get_running_loop().create_future()
    channel = PlainChannel(
        asyncio.get_running_loop(), server.detach(), sending, lambda: None, lost.set_result
    )
    file = OpenFile(path)
    channel.send([FileSlice(file, 0, size)])
    reason = await within(lost, "the loss of the connection")
    channel.close()
    client.close()

    assert "file ends" in str(reason)


def is_open(number: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def test_a_socket_is_not_closed_under_a_sender(content: tuple[FileSlice, bytes]) -> None:
    """Its number would be the next connection's, which would get the rest of the answer."""
    sending = SendingThreads(IoThreads(1), 1)
    client, server = socket.socketpair()
    client.setblocking(False)
    server.setblocking(False)
    number = server.fileno()
    channel = PlainChannel(
        asyncio.get_running_loop(), server.detach(), sending, lambda: None, print
    )
    channel.send([b"head", content[0], b"tail"])
    channel.close()
    channel.close()
    others = [socket.socket() for _ in range(20)]
    numbers = {each.fileno() for each in others}
    for each in others:
        each.close()
    received = await _receive(client, 1 << 30)
    await give_turns_until(lambda: is_open(number), "a closed socket", equals(False))
    client.close()
    sending.close()
    sending.io.close()

    assert number not in numbers
    assert (b"head" + content[1]).startswith(received)


async def test_a_closed_channel_leaves_its_number_to_others(sending: SendingThreads) -> None:
    """The next connection has it, and neither gets nor loses a byte by us; nobody is told."""
    client, server = socket.socketpair()
    lost: list[str | Exception] = []
    channel = PlainChannel(
        asyncio.get_running_loop(), server.detach(), sending, lambda: None, lost.append
    )
    channel.close()
    client.close()
    channel.send_bytes(b"late")
    received = channel.receive(memoryview(bytearray(9)), 0, 9)

    assert (channel.fileno, received, lost) == (-1, 0, [])
