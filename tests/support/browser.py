"""A headless Chromium that a test drives through the DevTools protocol, over a pair of pipes.

The command is the environment's CHROMIUM, else one of Debian's names on the PATH.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.waiting import PATIENCE

COMMANDS = ("chromium", "chromium-headless-shell", "google-chrome")
_READ_BYTES = 1 << 16
_PAUSE = 0.02  # seconds between two looks at the page
# The protocol is spoken on descriptors 3 and 4, which may be in use here.
_EXEC = """
import os, sys
ends = [os.dup(int(each)) for each in sys.argv[1:3]]
while min(ends) < 5:
    ends = [os.dup(each) for each in ends]
for number, each in enumerate(ends, 3):
    os.dup2(each, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str:
    """Return the command, or skip the test for lack of it."""
    given = os.environ.get("CHROMIUM")
    found = given or next(filter(None, map(shutil.which, COMMANDS)), None)
    if found is None:
        pytest.skip("chromium: not on the PATH")
    return found


class BrowserError(Exception):
    """The browser refused, or the page's script failed."""


class Browser:
    """One browser with one page; ``troubles`` are its errors and its failed requests."""

    def __init__(self, folder: Path) -> None:
        their_input, self._to = os.pipe()
        self._from, their_output = os.pipe()
        arguments = [
            find_chromium(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, str(their_input), str(their_output), *arguments],
            pass_fds=(their_input, their_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        self._number = 0
        self._received = bytearray()
        self._answers = select.poll()  # `select` takes no descriptor above 1023
        self._answers.register(self._from, select.POLLIN)
        self.troubles: list[str] = []
        self.asked: list[str] = []
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._received:
            ready = self._answers.poll(1000 * max(0.0, deadline - time.monotonic()))
            data = os.read(self._from, _READ_BYTES) if ready else b""
            if not data:
                raise BrowserError(f"the browser said nothing for {PATIENCE} s, or ended")
            self._received += data
        line, _, rest = bytes(self._received).partition(b"\0")
        self._received = bytearray(rest)
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.troubles.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.troubles.append(str(parameters["entry"]))
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
            case _:
                pass

    def resize(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """Set the size of the screen, and a light or dark colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script: str, what: str) -> Any:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(script)):
            if time.monotonic() > deadline:
                text = self.evaluate("document.body.innerText")
                raise AssertionError(f"waited for {what}; the page shows: {text}")
            time.sleep(_PAUSE)
        return value

    def press(self, key: str) -> None:
        """Press a key: a character, or Enter or Escape."""
        codes = {"Enter": 13, "Escape": 27}
        event: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        if key not in codes:
            event["text"] = key
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shoot(self, file: Path) -> None:
        """Write a picture of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Run a browser that has its profile in a folder."""
    with Browser(folder) as browser:
        yield browser
