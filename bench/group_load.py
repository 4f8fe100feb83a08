"""Load on a broker's groups: raw frames, one in flight on each connection, one thread.

``python -m bench.group_load KIND BOOTSTRAP ...`` prints one line of JSON. The frames of the hot
loops are made once, by kio; what comes back is compared with the expected answer, byte for byte.
"""

from __future__ import annotations

import io
import json
import select
import socket
import struct
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SESSION: Final = timedelta(seconds=60)
_CORRELATION_ID: Final = 7


def request_class(key: int, version: int) -> Any:
    """Return the class of a request."""
    return load_request_schema(key, version)


def nested(key: int, version: int, name: str) -> Any:
    """Return a class of a request's module by its name."""
    request = load_request_schema(key, version)
    return getattr(sys.modules[request.__module__], name)


def frame(request: Any) -> bytes:
    """Return the frame of a request as kio writes it."""
    kind = type(request)
    body = io.BytesIO()
    entity_writer(kind)(body, request)
    head = struct.pack(">hhih", kind.__api_key__, kind.__version__, _CORRELATION_ID, -1)
    whole = head + (b"\0" if kind.__flexible__ else b"") + body.getvalue()
    return len(whole).to_bytes(4, "big") + whole


class Connection:
    """One connection with one request in flight."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fileno = self.socket.fileno()
        self._received = b""

    def receive(self) -> bytes | None:
        """Return the body of the answer, None if it is not all there yet."""
        self._received += self.socket.recv(1 << 20)
        data = self._received
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            return None
        self._received = b""
        return data[4:]

    def ask(self, request: Any) -> Any:
        """Send a request, wait, and return the answer as kio reads it."""
        self.socket.sendall(frame(request))
        while (body := self.receive()) is None:
            pass
        return read(type(request), body)


def read(kind: Any, body: bytes) -> Any:
    """Return an answer as kio reads it."""
    response = load_response_schema(kind.__api_key__, kind.__version__)
    _, size = entity_reader(response.__header_schema__)(body, 0)
    return entity_reader(response)(body, size)[0]


def commit(group: str, topic: str, partitions: Iterable[int], offset: int) -> Any:
    """Return an OffsetCommit of a group without members."""
    row = nested(8, 8, "OffsetCommitRequestPartition")
    topics = nested(8, 8, "OffsetCommitRequestTopic")
    return request_class(8, 8)(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(
            topics(
                name=topic,
                partitions=tuple(
                    row(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata="",
                    )
                    for index in partitions
                ),
            ),
        ),
    )


def join(group: str, member_id: str) -> Any:
    """Return a JoinGroup of version 5; the member metadata is that of a consumer."""
    protocol = nested(11, 5, "JoinGroupRequestProtocol")
    return request_class(11, 5)(
        group_id=group,
        session_timeout=SESSION,
        rebalance_timeout=SESSION,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(
            protocol(name="range", metadata=b"\0\0\0\0\0\1\0\5bench" + b"\xff\xff\xff\xff"),
        ),
    )


def sync(group: str, member_id: str, generation: int, members: Sequence[str]) -> Any:
    """Return a SyncGroup of version 3; the leader gives every member some bytes."""
    row = nested(14, 3, "SyncGroupRequestAssignment")
    return request_class(14, 3)(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        assignments=tuple(row(member_id=each, assignment=bytes(20)) for each in members),
    )


def heartbeat(group: str, member_id: str, generation: int) -> Any:
    """Return a Heartbeat of version 4."""
    return request_class(12, 4)(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )


def enter(connection: Connection, group: str) -> tuple[str, int]:
    """Make a member the only one of its group; return its id and the generation."""
    member_id = connection.ask(join(group, "")).member_id
    joined = connection.ask(join(group, member_id))
    connection.ask(sync(group, member_id, joined.generation_id, [member_id]))
    return member_id, int(joined.generation_id)


def closed_loop(
    connections: Sequence[Connection], frames: Sequence[bytes], seconds: float
) -> dict[str, float]:
    """Send every connection its frame again and again; all answers must be the first one."""
    expected: list[bytes] = []
    for connection, data in zip(connections, frames, strict=True):
        connection.socket.sendall(data)
        while (body := connection.receive()) is None:
            pass
        expected.append(body)
    poll = select.epoll()
    place = {}
    for number, connection in enumerate(connections):
        poll.register(connection.fileno, select.EPOLLIN)
        place[connection.fileno] = number
    count = 0
    began = time.perf_counter()
    for connection, data in zip(connections, frames, strict=True):
        connection.socket.send(data)
    while (now := time.perf_counter()) - began < seconds:
        for fileno, _ in poll.poll():
            number = place[fileno]
            body = connections[number].receive()
            if body is None:
                continue
            if body != expected[number]:
                raise RuntimeError(f"the answer changed: {body!r}, was {expected[number]!r}")
            count += 1
            connections[number].socket.send(frames[number])
    return {"requests/s": count / (now - began), "count": count}


def commits(port: int, topic: str, seconds: float) -> dict[str, float]:
    """A hundred groups that commit one partition each, again and again."""
    connections = [Connection(port) for _ in range(100)]
    frames = [frame(commit(f"commits-{n}", topic, [0], 1)) for n in range(100)]
    return closed_loop(connections, frames, seconds)


def heartbeats(port: int, topic: str, seconds: float) -> dict[str, float]:
    """A hundred groups of one member that beats again and again."""
    del topic
    connections = [Connection(port) for _ in range(100)]
    frames = []
    for number, connection in enumerate(connections):
        group = f"heartbeats-{time.time_ns()}-{number}"
        frames.append(frame(heartbeat(group, *enter(connection, group))))
    return closed_loop(connections, frames, seconds)


class Member:
    """A member that does what a client does, as fast as answers come."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.size = 0  # members, if it leads
        self.is_stable = False
        self._act: Callable[[bytes], None] = self._joined

    def join(self) -> None:
        """Send a JoinGroup."""
        self.is_stable = False
        self.connection.socket.send(frame(join(self.group, self.member_id)))
        self._act = self._joined

    def act(self) -> None:
        """Go on with the answer that has come."""
        body = self.connection.receive()
        if body is not None:
            self._act(body)

    def _joined(self, body: bytes) -> None:
        answer = read(load_request_schema(11, 5), body)
        self.member_id = answer.member_id
        if answer.error_code:
            self.join()
            return
        self.generation = answer.generation_id
        members = [each.member_id for each in answer.members]
        self.size = len(members)
        request = sync(self.group, self.member_id, self.generation, members)
        self.connection.socket.send(frame(request))
        self._act = self._synced

    def _synced(self, body: bytes) -> None:
        if read(load_request_schema(14, 3), body).error_code:
            self.join()
            return
        self.is_stable = True
        self._beat(body)

    def _beat(self, body: bytes) -> None:
        if self._act == self._beat and int.from_bytes(body[9:11], "big"):
            self.join()
            return
        self._act = self._beat
        self.connection.socket.send(frame(heartbeat(self.group, self.member_id, self.generation)))


def stable(port: int, topic: str, seconds: float) -> dict[str, float]:
    """Fifty members that start together, then one leaves; each beats all the time."""
    del topic, seconds
    group = f"stable-{time.time_ns()}"
    members = [Member(Connection(port), group) for _ in range(50)]
    poll = select.epoll()
    by_fileno = {}
    for member in members:
        poll.register(member.connection.fileno, select.EPOLLIN)
        by_fileno[member.connection.fileno] = member

    def settle(size: int) -> float:
        began = time.perf_counter()
        while True:
            for fileno, _ in poll.poll():
                by_fileno[fileno].act()
            generations = {member.generation for member in members if member.is_stable}
            is_whole = all(member.is_stable for member in members) and len(generations) == 1
            if is_whole and sum(member.size for member in members) == size:
                return (time.perf_counter() - began) * 1000

    for member in members:
        member.join()
    start = settle(50)
    gone = members.pop()
    leave = request_class(13, 3)(
        group_id=group,
        members=(
            nested(13, 3, "MemberIdentity")(member_id=gone.member_id, group_instance_id=None),
        ),
    )
    poll.unregister(gone.connection.fileno)
    gone.connection.socket.close()
    Connection(port).ask(leave)
    return {"ms after start": start, "ms after one left": settle(49)}


def many(port: int, topic: str, count: float) -> dict[str, float]:
    """So many groups of one member; the connections stay few."""
    del topic
    connections = [Connection(port) for _ in range(10)]
    for number in range(int(count)):
        enter(connections[number % 10], f"many-{number}")
    return {"groups": count}


def fill(port: int, topic: str, count: float) -> dict[str, float]:
    """So many committed offsets, in groups of a hundred partitions."""
    connection = Connection(port)
    for number in range(int(count) // 100):
        answer = connection.ask(commit(f"filled-{number}", topic, range(100), number))
        if any(each.error_code for each in answer.topics[0].partitions):
            raise RuntimeError(f"a commit was refused: {answer}")
    return {"offsets": count}


def loaded(port: int, topic: str, count: float) -> dict[str, float]:
    """Wait until every group of `fill` can be asked; return the moment, ns of the steady clock."""
    group = nested(9, 8, "OffsetFetchRequestGroup")
    row = nested(9, 8, "OffsetFetchRequestTopics")
    request = request_class(9, 8)(
        groups=tuple(
            group(group_id=f"filled-{number}", topics=(row(name=topic, partition_indexes=(99,)),))
            for number in range(min(1000, int(count) // 100))
        ),
        require_stable=False,
    )
    while True:
        try:
            answer = Connection(port).ask(request)
        except OSError:
            time.sleep(0.005)
            continue
        if not any(each.error_code for each in answer.groups):
            break
    found = [each.topics[0].partitions[0].committed_offset for each in answer.groups]
    if found != list(range(len(found))):
        raise RuntimeError("offsets are missing")
    return {"ready ns": time.monotonic_ns()}


KINDS: Final = {
    "commits": commits,
    "heartbeats": heartbeats,
    "stable": stable,
    "many": many,
    "fill": fill,
    "loaded": loaded,
}


if __name__ == "__main__":
    chosen, address, name, amount = sys.argv[1:]
    result = KINDS[chosen](int(address.rpartition(":")[2]), name, float(amount))
    print(json.dumps(result))
