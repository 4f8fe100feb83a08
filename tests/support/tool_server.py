"""Runs Kafka's command-line tools one after the other in one JVM, to save its slow start."""

import struct
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from tests.support.java_program import run_program
from tests.support.kafka import KafkaJars

_SIZE = struct.Struct(">i")


class ToolServer:
    """A JVM that runs tools; it is replaced after a tool that failed or left a thread behind.

    If all tools use one broker, such a thread does no harm, and with ``keeps`` the JVM goes on.

    Raises:
        LookupError: A JDK is missing; the message begins with which.
    """

    def __init__(self, jars: KafkaJars, *, keeps: bool = False) -> None:
        self._command = run_program(jars, "ToolServer")
        self._keeps = keeps
        self._process: subprocess.Popen[bytes] | None = None

    def try_run(
        self, main: str, arguments: Sequence[str], stdin: str, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run the tool of a class and return how it went.

        Raises:
            subprocess.TimeoutExpired: It did not end in time.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        process = self._process
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(timeout, give_up)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(_words([main, stdin, *arguments]))
            process.stdin.flush()
            code = _number(process.stdout)
            printed, errors = (
                _take(process.stdout, _number(process.stdout)).decode() for _ in range(2)
            )
            is_clean = _take(process.stdout, 1) == b"\x01"
        except (EOFError, BrokenPipeError):
            self.close()
            if is_late.is_set():
                raise subprocess.TimeoutExpired([main, *arguments], timeout) from None
            raise
        finally:
            timer.cancel()
        if not (is_clean or self._keeps):
            self.close()
        return subprocess.CompletedProcess([main, *arguments], code, printed, errors)

    def close(self) -> None:
        """End the JVM, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _words(words: Sequence[str]) -> bytes:
    encoded = [word.encode() for word in words]
    sized = (_SIZE.pack(len(each)) + each for each in encoded)
    return _SIZE.pack(len(encoded)) + b"".join(sized)


def _number(stream: IO[bytes]) -> int:
    number: int = _SIZE.unpack(_take(stream, _SIZE.size))[0]
    return number


def _take(stream: IO[bytes], size: int) -> bytes:
    octets = stream.read(size)
    if len(octets) < size:
        raise EOFError("the JVM of the tools has ended")
    return octets
