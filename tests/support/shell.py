"""Commands that ask a broker of the test, as a user types them, and what they print."""

import asyncio
import io
import json
import os
import sys
import termios
from typing import Any

import pytest

from siltstone.broker.__main__ import main
from tests.support.broker import siltstone
from tests.support.running import Running
from tests.support.waiting import within

_TERMINAL_BYTES = 4096
"""The bytes that a terminal keeps until they are read."""


class Shell:
    """Runs commands against a broker and keeps what they print."""

    def __init__(
        self,
        broker: Running,
        capfdbinary: pytest.CaptureFixture[bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._address = f"127.0.0.1:{broker.listeners[0].port}"
        self._capture = capfdbinary
        self._patch = monkeypatch
        self.error = ""

    async def run(self, *words: str, code: int = 0, given: bytes = b"") -> str:
        """Run a command, which must end with this code; return what it prints."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        self._capture.readouterr()
        ended = await asyncio.to_thread(main, [*words, "-b", self._address])
        sys.stdout.flush()
        out, error = self._capture.readouterr()
        self.error = error.decode()
        assert ended == code, (out, error)
        return out.decode(errors="replace")

    async def show(self, *words: str) -> bytes:
        """Run a command on a terminal; return what that is sent."""
        ours, theirs = os.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # line ends as they are sent
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        process = await asyncio.create_subprocess_exec(
            siltstone(), *words, "-b", self._address, stdout=theirs
        )
        os.close(theirs)
        assert await within(process.wait(), "the end of the command") == 0
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            return terminal.read(_TERMINAL_BYTES)

    async def ask(self, *words: str, code: int = 0) -> Any:
        """Run a command for JSON."""
        return json.loads(await self.run(*words, "--json", code=code))


@pytest.fixture
def shell(
    broker: Running, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """Commands for that broker."""
    return Shell(broker, capfdbinary, monkeypatch)
