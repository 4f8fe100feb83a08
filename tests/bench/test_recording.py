"""Recordings: nothing is altered on the way, and what was kept can be read and summed up."""

import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from bench.clients import messages
from bench.clients.messages import message
from bench.clients.recorder import Exchange, Recorder
from bench.clients.recording import make_recording, read, read_request, summarize, write
from bench.clients.topics import list_offsets
from bench.connection import answer_frame, frame, part, response_class


def _numbered(data: bytes, number: int) -> bytes:
    return data[:8] + number.to_bytes(4, "big") + data[12:]


class _Server(threading.Thread):
    """Takes two requests and answers them, in pieces that have nothing to do with the frames."""

    def __init__(self, requests: bytes, answers: bytes) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.got = b""
        self._size = len(requests)
        self._answers = answers

    def run(self) -> None:
        client, _ = self.listener.accept()
        with client:
            while len(self.got) < self._size:
                self.got += client.recv(7)
            for start in range(0, len(self._answers), 5):
                client.sendall(self._answers[start : start + 5])


def test_a_recorder_passes_everything_on() -> None:
    """Both sides get each other's bytes; pipelined frames are told apart and matched."""
    requests = b"".join(_numbered(frame(list_offsets({"t": range(n)}), "app"), n) for n in (1, 2))
    answers = b"".join(
        len(body).to_bytes(4, "big") + body
        for body in (n.to_bytes(4, "big") + b"x" * n for n in (1, 2))
    )
    server = _Server(requests, answers)
    server.start()
    with Recorder() as recorder:
        recorder.upstream = ("127.0.0.1", server.listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", recorder.port), timeout=10) as client:
            client.sendall(requests)
            got = b""
            while len(got) < len(answers):
                got += client.recv(100)
        server.join(10)
        exchanges = recorder.exchanges
    server.listener.close()

    assert (server.got, got) == (requests, answers)
    assert b"".join(each.request for each in exchanges) == requests
    assert b"".join(each.answer for each in exchanges) == answers
    assert all(each.answered_at >= each.at for each in exchanges)
    assert {each.connection for each in exchanges} == {1}


def _exchanges() -> list[Exchange]:
    """Return a Metadata and two ListOffsets of an application, and a request of a helper."""
    response = response_class(messages.METADATA, 13)
    partition, topic = (
        part(response, f"MetadataResponse{each}") for each in ("Partition", "Topic")
    )
    good = ErrorCode.none
    nobody: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("replica_nodes", "isr_nodes", "offline_replicas"), ()
    )
    rows = tuple(
        partition(error_code=good, partition_index=index, leader_id=1, **nobody)
        for index in range(3)
    )
    known = topic(
        error_code=good, name="t", topic_id=UUID(int=9), is_internal=False, partitions=rows
    )
    metadata = message(messages.METADATA, topics=None, include_topic_authorized_operations=False)
    offsets = response_class(messages.LIST_OFFSETS, 11)(throttle_time=timedelta(0), topics=())
    answered = answer_frame(
        response(
            throttle_time=timedelta(0),
            brokers=(),
            controller_id=1,
            topics=(known,),
            error_code=good,
        )
    )
    return [
        Exchange(4, 100, frame(metadata, "app"), 150, answered),
        Exchange(5, 200, frame(list_offsets({"t": range(1)}), "app"), 400, answer_frame(offsets)),
        Exchange(5, 300, frame(list_offsets({"t": range(3)}), "app"), 500, answer_frame(offsets)),
        Exchange(6, 301, frame(list_offsets({"t": range(3)}), "help"), 500, answer_frame(offsets)),
    ]


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Requests, their moments and the ids of topics survive; the helper's are not kept."""
    made = make_recording("app", _exchanges(), "help")

    write(made, tmp_path / "app.jsonl.xz")

    assert read(tmp_path / "app.jsonl.xz") == made
    assert made.topics["t"].topic_id == UUID(int=9)
    assert [(each.connection, each.at, each.took) for each in made.requests] == [
        (0, 0, 50),
        (1, 100, 200),
        (1, 200, 200),
    ]
    assert read_request(made.requests[2].data) == list_offsets({"t": range(3)})


def test_a_summary_says_how_each_api_was_asked() -> None:
    """Least, median and most of sizes, gaps and partitions; what was in flight at once."""
    summary = summarize(make_recording("app", _exchanges(), "help"))

    client = summary["clients"]["app"]
    asked = client["requests"]["ListOffsets v11"]
    assert summary["topics"] == {"t": 3}
    assert (client["connections"], client["in flight"]) == (2, 2)
    assert (asked["count"], asked["gap us"], asked["partitions"]) == (2, [100, 100, 100], [1, 2, 3])


def test_of_very_many_requests_some_are_kept_in_equal_steps() -> None:
    """The bytes of a long recording are few; the fetch that begins a session is among them."""
    answered = answer_frame(
        response_class(messages.FETCH, 18)(
            throttle_time=timedelta(0), error_code=ErrorCode.none, session_id=1, responses=()
        )
    )
    exchanges = [
        Exchange(1, number, frame(_fetch(number), "app"), number + 1, answered)
        for number in range(1000)
    ]

    requests = make_recording("app", exchanges, "help").requests

    assert [each.at for each in requests if each.data] == list(range(0, 1000, 5))
    assert read_request(requests[0].data).session_epoch == 0
    assert {each.size for each in requests} == {len(frame(_fetch(0), "app"))}


def _fetch(epoch: int) -> Any:
    return message(
        messages.FETCH,
        max_wait=timedelta(0),
        min_bytes=1,
        isolation_level=0,
        session_id=1,
        session_epoch=epoch,
        topics=(),
        forgotten_topics_data=(),
        rack_id="",
    )
