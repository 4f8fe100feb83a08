"""The file of the settings, looked at while the broker runs: a change is told, or taken.

An editor may write a file in pieces, so a change counts when two looks in a row have seen the same.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from siltstone.broker.topics.settings.reload import plan_reload, reload
from siltstone.config.errors import ConfigError
from siltstone.storage import files

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.settings.in_force import BrokerSettings

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


class SettingsFile:
    """Tells of a changed file, or reloads it with ``config.reload.on.change`` (loop only)."""

    def __init__(
        self,
        path: Path,
        settings: BrokerSettings,
        io: IoThreads,
        certificates: Endpoints | None = None,
    ) -> None:
        self._path = path
        self._settings = settings
        self._io = io
        self._certificates = certificates
        self._taken = self._last = files.look_at(path)

    async def run(self) -> None:
        """Look every `LOOK_SECONDS`."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Tell of a change that has settled, or take it."""
        seen = await self._io.run(files.look_at, self._path)
        has_settled, self._last = seen == self._last, seen
        if seen == self._taken or not has_settled:
            return
        self._taken = seen
        if self._settings.server.config_reload_on_change:
            log.info("reloading changed=%s", self._path)
            with suppress(ConfigError):  # which is logged
                await reload(self._settings, self._io, self._certificates)
        else:
            await self._tell()

    async def _tell(self) -> None:
        try:
            plan = await plan_reload(self._settings, self._io)
        except ConfigError as error:
            for fault in error.faults:
                log.warning("settings file has changed, a reload would change nothing: %s", fault)
            return
        if plan.now or plan.restart:
            log.info(
                "settings file has changed, siltstone diff shows how, siltstone reload takes it "
                "path=%s now=%d restart=%d",
                self._path,
                len(plan.now),
                len(plan.restart),
            )
