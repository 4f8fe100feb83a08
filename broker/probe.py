"""The probe: a record appended and fetched through our own listener, as a client would.

It has a log of its own in a hidden folder of the first log directory, registered under a name that
no client can guess or create, so it is in no Metadata. The folder is made anew at each start and
kept small by its own retention.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from typing import TYPE_CHECKING

from broker.probe_frames import (
    fetch_request,
    produce_request,
    read_fetched,
    read_produced,
)
from broker.readiness import PROBE_SECONDS, ProbeFailed
from protocol.records.batch import CRC_POSITION
from protocol.records.build import build_batch
from protocol.records.record import Record

if TYPE_CHECKING:
    from storage.clock import Clock
    from storage.log import Log

FOLDER = ".siltstone-probe"
_MOST_ANSWER_BYTES = 1 << 20
_ANY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the reverse of binding


def new_name() -> str:
    """Return a topic name that is illegal (spaces) and cannot be guessed."""
    return f"siltstone probe {secrets.token_hex(16)}"


class Probe:
    """One round trip at a time over a connection of its own (loop only)."""

    def __init__(self, name: str, log: Log, address: tuple[str, int], clock: Clock) -> None:
        self.name = name
        self._log = log
        host, port = address
        self._address = (_ANY_ADDRESS.get(host, host), port)
        self._clock = clock

    async def round_trip(self) -> None:
        """Append a record nobody has seen, fetch it and compare every byte.

        Raises:
            ProbeFailed: the broker refused it, or answered other bytes.
            OSError: the listener cannot be reached.
            EOFError: the connection was closed without an answer.
        """
        value = secrets.token_bytes(16)
        record = Record(offset=0, timestamp=self._clock.now_ms(), key=b"probe", value=value)
        batch = bytes(build_batch([record]))
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(produce_request(self.name, batch, int(PROBE_SECONDS * 1000)))
            produced = read_produced(await _read_frame(reader), self.name)
            _check(produced.error_code, "appended")
            writer.write(fetch_request(self.name, produced.base_offset))
            fetched = read_fetched(await _read_frame(reader), self.name)
            _check(fetched.error_code, "fetched")
        except struct.error as error:
            raise ProbeFailed(f"the answer is cut short: {error}") from error
        finally:
            writer.close()
        # The base offset and the leader epoch before the CRC are the broker's to fill in.
        if fetched.records[CRC_POSITION:] != batch[CRC_POSITION:]:
            raise ProbeFailed("the record that was appended is not the one that was fetched")
        self._log.apply_retention(self._clock.now_ms())


def _check(error_code: int, done: str) -> None:
    if error_code:
        raise ProbeFailed(f"the record could not be {done}: Kafka error code {error_code}")


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 0 < size <= _MOST_ANSWER_BYTES:
        raise ProbeFailed(f"an answer of {size} bytes makes no sense")
    return await reader.readexactly(size)
