"""The probe appends and fetches a record through our own listener, as a client would.

The probe has a log of its own in a hidden folder of the first log directory. The log is registered
under a name that no client can guess or create, so Metadata never has it. The folder is created
again at each start and whenever it has grown; a clean stop removes it. The folder is named like
that of a deleted partition. So if a broker is killed, the next one removes the folder, and so does
Apache Kafka, which does not start if a folder has another kind of name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import Struct
from typing import Any, Final, TypeAlias

from siltstone.broker.http.readiness import PROBE_SECONDS, ProbeFailed
from siltstone.broker.process import sockets
from siltstone.broker.process.io import IoThreads
from siltstone.config.listeners import reachable
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import CRC_POSITION
from siltstone.protocol.errors import KafkaStorageError, ProtocolError, error_name
from siltstone.protocol.messages import Message, fetch, produce
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import PartitionFolder, create_partition
from siltstone.storage.log.services import LogServices
from siltstone.storage.manager import LogManager
from siltstone.storage.randomness import random_bytes, random_id
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.topic_partition import FolderState, TopicPartition, folder_name

_logger = logging.getLogger(__name__)

Dial: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

LOG = TopicPartition(".siltstone-probe", 0)
MAX_LOG_BYTES = 4 << 20
_PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 12
_HEAD: Final = Struct(">hhih")
_CLIENT_ID: Final = b"siltstone-probe"
_ANSWER_HEAD: Final = 5  # correlation id and an empty tag section
_ALL: Final = -1
_FETCHED_BYTES: Final = 64 * 1024
_MAX_ANSWER_BYTES = 1 << 20
_NO_PRODUCERS_MS = 1
_OFFSET_BYTES = 8


class Probe:
    """Owner of the probe's log and of its round trips, one at a time (loop only).

    ``name`` is a secret: a client that knew the name could write without the limits of topics. The
    name is random, has spaces, which no topic name may have, and is never logged. The log itself is
    named after its folder.
    """

    def __init__(
        self, logs: LogManager, registered: dict[tuple[str, int], Log], io: IoThreads, clock: Clock
    ) -> None:
        self.name = f"siltstone probe {random_bytes(16).hex()}"
        self._registered = registered
        self._io = io
        self._clock = clock
        self._logs = logs
        self._folder_name = folder_name(LOG, FolderState.DELETE, random_id())
        self._services = LogServices(
            clock=clock,
            background=logs.background,
            deletions=logs.deletions,
            appends=logs.services.appends,
        )
        self._address = ("", 0)
        self._find_dial: Callable[[], Dial | None] = lambda: None
        self._creation: asyncio.Future[Log] | None = None

    @property
    def _directory(self) -> LogDirectory:
        return self._logs.directories[0]

    @property
    def _folder(self) -> Path:
        return self._directory.path / self._folder_name

    def aim(self, address: tuple[str, int], find_dial: Callable[[], Dial | None]) -> None:
        """Note that the listener is at ``address``, or which call connects to it at the moment."""
        self._find_dial = find_dial
        self._address = (reachable(address[0]), address[1])

    async def round_trip(self) -> None:
        """Append a new record, fetch it and compare every byte; a missing log is created before.

        The logs must be open.

        Raises:
            ProbeFailed: the broker refused it, or answered other bytes.
            OSError: the log cannot be created, or the listener cannot be reached.
            EOFError: the connection was closed without an answer.
        """
        log = self._registered.get((self.name, 0))
        if log is None or log.size > MAX_LOG_BYTES:
            await self._leave()
            self._registered[self.name, 0] = await self._make_log()
        record = Record(0, self._clock.now_ms(), b"probe", random_bytes(16))
        batch = bytes(build_batch([record]))
        base_offset, fetched = await self._exchange(batch)
        # The broker fills in the base offset and the leader epoch, which stand before the CRC.
        expected = base_offset.to_bytes(_OFFSET_BYTES, "big", signed=True) + batch[CRC_POSITION:]
        if fetched[:_OFFSET_BYTES] + fetched[CRC_POSITION:] != expected:
            raise ProbeFailed("the record that was appended is not the one that was fetched")

    async def close(self) -> None:
        """Unregister the log and remove its folder; idempotent.

        A folder that the disk keeps goes with the next start: it has the name of a deleted one.
        """
        if await self._leave():
            try:
                await self._io.run(files.remove_folder, self._folder)
            except OSError as error:
                _logger.warning("probe not removed folder=%s reason=%s", self._folder, error)

    async def _leave(self) -> bool:
        """Unregister the log; tell whether there was one."""
        log = self._registered.pop((self.name, 0), None)
        if log is not None:
            await self._io.run(log.abandon, self._folder)
        return log is not None

    async def _exchange(self, batch: bytes) -> tuple[int, bytes]:
        """Append a batch; return its offset and the bytes that a fetch from there returns."""
        dial = self._find_dial()
        if dial is not None:
            reader, writer = await dial()
        else:
            reader, writer = await sockets.connect(*self._address)
        try:
            data = produce.TopicProduceData(
                self.name, partition_data=[produce.PartitionProduceData(records=batch)]
            )
            timeout_ms = int(PROBE_SECONDS * 1000)
            append = produce.ProduceRequest(acks=_ALL, timeout_ms=timeout_ms, topic_data=[data])
            writer.write(frame_of(produce.REQUEST, _PRODUCE_VERSION, append))
            answer = await read_answer(reader, produce.RESPONSE, _PRODUCE_VERSION)
            produced = answer.responses[0].partition_responses[0]
            self._check(produced.error_code, "appended")
            wanted = FetchPartition(
                fetch_offset=produced.base_offset, partition_max_bytes=_FETCHED_BYTES
            )
            topic = FetchTopic(self.name, partitions=[wanted])
            read = FetchRequest(max_bytes=_FETCHED_BYTES, topics=[topic])
            writer.write(frame_of(fetch.REQUEST, _FETCH_VERSION, read))
            answer = await read_answer(reader, fetch.RESPONSE, _FETCH_VERSION)
            self._check(answer.error_code, "fetched")
            fetched = answer.responses[0].partitions[0]
            self._check(fetched.error_code, "fetched")
        except (ProtocolError, IndexError) as error:
            raise ProbeFailed(f"the answer is cut short: {error}") from error
        finally:
            writer.close()
        return produced.base_offset, bytes(fetched.records or b"")

    def _check(self, error_code: int, done: str) -> None:
        if error_code == KafkaStorageError.code and self._directory.trouble is not None:
            raise ProbeFailed(f"log directory {self._directory.path} {self._directory.trouble}")
        if error_code:
            raise ProbeFailed(
                f"the record could not be {done}: {error_name(error_code)}; see the broker's log"
            )

    async def _make_log(self) -> Log:
        """Create the log, once: a trip that a hanging disk ends leaves it to the next trip."""
        if self._creation is None:
            self._creation = self._io.run(self._create)
        creation = self._creation
        try:
            return await asyncio.shield(creation)
        finally:
            if creation.done():
                self._creation = None

    def _create(self) -> Log:
        """Create an empty log. Blocks."""
        files.remove_folder(self._folder)
        folder = PartitionFolder(
            topic_partition=LOG,
            directory=self._directory,
            path=self._folder,
            config=TopicConfig(),
            open_files=OpenFiles(),
            producer_expiration_ms=_NO_PRODUCERS_MS,
        )
        return Log(create_partition(folder, random_id(), self._clock.now_ms()), self._services)


def frame_of(request: Message, version: int, row: Any) -> bytes:
    """Return a request as the bytes that a client sends."""
    head = _HEAD.pack(request.key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    body = request.write(version, row)
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


async def read_answer(reader: asyncio.StreamReader, response: Message, version: int) -> Any:
    """Return the next answer.

    Raises:
        ProbeFailed: Its size makes no sense.
        ProtocolError: The bytes are no such answer.
        EOFError: The connection was closed without an answer.
    """
    size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 0 < size <= _MAX_ANSWER_BYTES:
        raise ProbeFailed(f"an answer of {size} bytes makes no sense")
    answer = memoryview(await reader.readexactly(size))
    return response.read(version, answer, min(_ANSWER_HEAD, size), size)[0]
