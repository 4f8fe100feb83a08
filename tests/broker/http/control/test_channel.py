"""The control channel and its token."""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from siltstone.broker.http.control.channel import ControlChannel, Status
from siltstone.broker.http.control.token import (
    TOKEN_FILE,
    ControlToken,
    brings_token,
    read_token,
)
from siltstone.broker.http.server import Routes
from siltstone.broker.http.values import HttpRequest, HttpResponse
from siltstone.broker.process.io import IoThreads
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition

TOKEN = "ab" * 32
STATUS = Status(
    version="1.2.3",
    ready=True,
    uptime_seconds=1.5,
    cluster_id="cluster",
    node_id=0,
    topics=1,
    partitions=2,
    connections=3,
    advertised={"PLAINTEXT": "127.0.0.1:9092"},
    log_dirs={"/data": "online"},
)


class FlushedLog:
    """Stands for a Log that is only flushed."""

    def __init__(self, partition: int, *, broken: bool = False) -> None:
        self.topic_partition = TopicPartition("orders", partition)
        self.flushes = 0
        self._broken = broken

    def flush(self) -> None:
        """Count, or fail as a disk does."""
        if self._broken:
            raise KafkaStorageError("the disk is gone")
        self.flushes += 1


def ensure_token(folder: Path) -> str:
    """Return the token that a broker has whose first log directory is this one."""
    ControlToken(folder).ensure()
    return read_token(folder)


def is_trusted(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether a request brings the token."""
    return brings_token(headers, TOKEN)


async def ask(
    method: str, path: str, logs: list[FlushedLog] | None = None, authorization: str = ""
) -> HttpResponse:
    """Ask a control channel over some logs."""
    io = IoThreads(1)
    control = ControlChannel(is_trusted, io, lambda: STATUS, lambda: cast("list[Log]", logs or []))
    headers = {b"authorization": authorization.encode()} if authorization else {}
    request = HttpRequest(method=method, path=path, headers=headers)
    try:
        return await Routes(control.routes()).answer(request)
    finally:
        io.close()


def body(response: HttpResponse) -> str:
    """Return an answer's body as text."""
    assert isinstance(response.body, bytes)
    return response.body.decode()


async def test_status_needs_no_token() -> None:
    """Any client that reaches the port may read the status."""
    response = await ask("GET", "/v1/status")

    assert response.status == 200
    assert json.loads(body(response))["log_dirs"] == {"/data": "online"}


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", f"Bearer {'cd' * 32}", f"Basic {TOKEN}", TOKEN, "Bearer \xff"]
)
async def test_change_without_the_token_is_refused(
    authorization: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is changed, and neither answer nor log tells the token."""
    log = FlushedLog(0)

    response = await ask("POST", "/v1/flush", [log], authorization)

    assert (response.status, log.flushes) == (401, 0)
    assert TOKEN_FILE in body(response)
    assert TOKEN not in body(response) + caplog.text


async def test_flush_brings_every_log_to_the_disk() -> None:
    """With the token each log is flushed once, more of them than one hop takes too."""
    logs = [FlushedLog(partition) for partition in range(150)]

    response = await ask("POST", "/v1/flush", logs, f"Bearer {TOKEN}")

    assert json.loads(body(response)) == {"flushed": 150, "faults": []}
    assert {log.flushes for log in logs} == {1}


async def test_flush_names_what_failed() -> None:
    """One broken log does not keep the others from the disk."""
    logs = [FlushedLog(0, broken=True), FlushedLog(1)]

    response = await ask("POST", "/v1/flush", logs, f"bearer {TOKEN}")

    assert response.status == 500
    assert json.loads(body(response)) == {"flushed": 1, "faults": ["orders-0: the disk is gone"]}


def test_token_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    """The file has mode 0600 and 256 random bits."""
    token = ensure_token(tmp_path)

    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert len(token) == 64
    assert read_token(tmp_path) == token


def test_nobody_brings_a_token_that_is_not_there(tmp_path: Path) -> None:
    """A broker trusts no header before its token is made, and its own one from then on."""
    token = ControlToken(tmp_path)
    empty = {b"authorization": b"Bearer "}
    before = token.is_brought_by(empty), token.is_brought_by({})
    token.ensure()
    own = {b"authorization": b"Bearer " + read_token(tmp_path).encode()}

    assert before == (False, False)
    assert token.is_brought_by(own)
    assert not token.is_brought_by(empty)


def test_token_is_kept_over_a_restart(tmp_path: Path) -> None:
    """A command that waits for the broker to come back can go on with its token."""
    assert ensure_token(tmp_path) == ensure_token(tmp_path)


def test_token_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    """A token file of a wider mode is no secret any more."""
    token = ensure_token(tmp_path)
    (tmp_path / TOKEN_FILE).chmod(0o644)

    assert ensure_token(tmp_path) != token
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600


def test_token_file_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    """A link is not followed, neither for reading nor for writing."""
    (tmp_path / "elsewhere").write_text("ab" * 32)
    (tmp_path / TOKEN_FILE).symlink_to(tmp_path / "elsewhere")

    token = ensure_token(tmp_path)

    assert token != "ab" * 32
    assert (tmp_path / "elsewhere").read_text() == "ab" * 32


def test_cut_token_is_replaced(tmp_path: Path) -> None:
    """A crash while the file was made leaves a start that makes it again."""
    (tmp_path / TOKEN_FILE).touch(0o600)

    assert len(ensure_token(tmp_path)) == 64
