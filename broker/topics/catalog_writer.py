"""Changes of the catalogue: many that arrive together become one write.

A change is a function that edits the next content of the file. Changes that arrive during a write
are collected, and the next write has them all: creating a thousand topics costs some dozens of
fsyncs, not a thousand.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from siltstone.broker.process.again import Again
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import Tasks
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage.directory.catalog import Catalog, CatalogState

Change: TypeAlias = Callable[[CatalogState], None]

_logger = logging.getLogger(__name__)


class CatalogWriter:
    """The only writer of the catalogue (loop only).

    ``state`` is the content that is on the disk. When `commit` returns, its change is in ``state``
    and on the disk. If a write fails, none of its changes has happened, and ``on_failure`` is
    called, since the log directory with the file may be unusable. The file gets its old content
    back; as long as the disk refuses that, too, the next start may find the changes. A fault of the
    broker is logged, and refuses the changes in the same way; a deferred change that fails is
    dropped, and no other with it.
    """

    def __init__(
        self,
        catalog: Catalog,
        io: IoThreads,
        on_failure: Callable[[OSError], object] = lambda _: None,
    ) -> None:
        self.state: CatalogState = catalog.state
        self.found = catalog.found
        self._catalog = catalog
        self._io = io
        self._on_failure = on_failure
        self._pending: list[tuple[Change, asyncio.Future[None]]] = []
        self._deferred: list[Change] = []
        self._writing = False
        self._tasks = Tasks()
        self._restoring = Again("put the catalogue back", self._write_state)

    async def commit(self, change: Change) -> None:
        """Write a change to the disk. The write continues if the caller is cancelled.

        Raises:
            KafkaStorageError: The file could not be written, or a change of those that are written
                together failed, so the change has not happened.
        """
        done = asyncio.get_running_loop().create_future()
        self._pending.append((change, done))
        if not self._writing:
            self._writing = True
            self._tasks.start(self._write_all(), "catalogue")
        await done

    def defer(self, change: Change) -> None:
        """Write a change with the next `commit`, or at the stop."""
        self._deferred.append(change)

    async def close(self) -> None:
        """Write what the disk still lacks; a disk that refuses it is logged. Idempotent."""
        if self._deferred or self._writing or self._restoring.is_due:
            try:
                await self.commit(_change_nothing)
            except KafkaStorageError as error:
                _logger.error("catalogue is not up to date: %s", error)  # noqa: TRY400  # the disk's fault
        self._restoring.give_up()

    async def _write_state(self) -> None:
        with suppress(KafkaStorageError):  # it is tried again
            await self.commit(_try_again)

    async def _write_all(self) -> None:
        try:
            while self._pending:
                await self._write()
        finally:
            self._writing = False

    async def _write(self) -> None:
        pending, self._pending = self._pending, []
        try:
            refusal = await self._write_changes([change for change, _ in pending])
        except Exception as error:
            path = self._catalog.path
            _logger.exception("catalogue is not changed, the broker failed path=%s", path)
            refusal = KafkaStorageError(
                f"{path} is not changed, the broker failed ({type(error).__name__}): see its log"
            )
        for _, done in pending:
            if done.done():
                continue  # its caller was cancelled
            if refusal is None:
                done.set_result(None)
            else:
                done.set_exception(refusal)

    async def _write_changes(self, changes: Sequence[Change]) -> KafkaStorageError | None:
        """Write the state with some changes; return the error if the disk refuses it."""
        draft = self._draft_deferred()
        deferred = len(self._deferred)
        try:
            for change in changes:
                change(draft)
            draft.generation += 1
            await self._io.run(self._catalog.write, draft)
        except Exception as error:
            await self._put_back()
            if not isinstance(error, OSError):
                raise
            if any(change is not _try_again for change in changes):
                self._on_failure(error)  # it may block, and an attempt fails every second
            return KafkaStorageError(
                f"{self._catalog.path} cannot be written ({error}); make room or check the disk"
            )
        self.state = draft
        del self._deferred[:deferred]
        self._restoring.end()
        return None

    def _draft_deferred(self) -> CatalogState:
        """Return the state with the deferred changes; one that fails is logged and dropped."""
        while True:
            draft = self.state.copy()
            for number, change in enumerate(self._deferred):
                try:
                    change(draft)
                except Exception:
                    _logger.exception(
                        "deferred change is dropped, the broker failed path=%s", self._catalog.path
                    )
                    del self._deferred[number]
                    break  # the draft may have a part of it
            else:
                return draft

    async def _put_back(self) -> None:
        """Restore the old content of the file, now or as soon as the disk takes it."""
        try:
            is_back = await self._io.run(self._catalog.put_back, self.state)
        except Exception:
            self._restoring.begin()
            raise
        if not is_back:
            self._restoring.begin()


def _change_nothing(state: CatalogState) -> None:
    """Change nothing: the write is for what the disk still lacks."""


def _try_again(state: CatalogState) -> None:
    """Change nothing: the write is one more attempt to put the state back."""
