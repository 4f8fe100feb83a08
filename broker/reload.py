"""Reads the settings again while the broker runs: after SIGHUP, `reload`, `diff` or an edit."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Layers
from siltstone.config.load import load_again
from siltstone.config.reloading import Plan, make_plan
from siltstone.storage import files

if TYPE_CHECKING:
    from siltstone.broker.net.tls.endpoints import Endpoints

_logger = logging.getLogger(__name__)


async def plan_reload(settings: BrokerSettings, io: IoThreads) -> Plan:
    """Return the changes that a reload would make now (loop only); an io thread reads the files.

    Raises:
        ConfigError: The settings have faults, all of which it names; a reload would change nothing.
    """
    while True:
        layers = settings.layers
        plan = await io.run(_plan, layers)
        if settings.layers is layers:  # else a client changed a dynamic value meanwhile
            return plan


async def reload(
    settings: BrokerSettings, io: IoThreads, certificates: Endpoints | None = None
) -> Plan:
    """Put the changes in force that need no restart, and return the plan, which names the others.

    Keys and certificates are read again, from the files that the new settings name.

    Raises:
        ConfigError: The settings have faults, all of which it names; nothing has changed.
    """
    try:
        while True:
            plan = await plan_reload(settings, io)
            layers = settings.layers
            if certificates is None:
                break
            made = await certificates.make(plan.layers.server().tls_listeners())
            if settings.layers is layers:  # else a client changed a dynamic value meanwhile
                certificates.take(made)
                break
    except ConfigError as error:
        for fault in error.faults:
            # TRY400: a value that a user gave, not a fault of ours.
            _logger.error("settings are not reloaded, nothing has changed: %s", fault)  # noqa: TRY400
        raise
    known = set(settings.layers.warnings)
    await settings.reload(plan.layers)  # in the same turn of the loop in which the plan was checked
    for warning in plan.layers.warnings:
        if warning not in known:
            _logger.warning("%s", warning)
    for name, value, source, wins, winner, winner_source in plan.shadowed:
        _logger.info(
            "setting has no effect, a dynamic value wins name=%s value=%s source=%r "
            "winner=%s winner_value=%s winner_source=%r",
            name,
            value,
            source,
            wins,
            winner,
            winner_source,
        )
    for name, old, new, source in plan.restart:
        _logger.warning(
            "setting changes at the next start name=%s now=%s then=%s source=%r",
            name,
            old,
            new,
            source,
        )
    _logger.info("settings reloaded changed=%d restart=%d", len(plan.now), len(plan.restart))
    return plan


def _plan(layers: Layers) -> Plan:
    return make_plan(layers, load_again(layers))


LOOK_SECONDS: Final = 2.0


class SettingsFile:
    """Logs that the file has changed, or with ``config.reload.on.change`` reloads it (loop only).

    An editor may write a file in pieces, so a change counts when two looks in a row see the same
    file.
    """

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
        """Look at the file every `LOOK_SECONDS`."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Log a change that is complete, or reload the file."""
        seen = await self._io.run(files.look_at, self._path)
        has_settled, self._last = seen == self._last, seen
        if seen == self._taken or not has_settled:
            return
        self._taken = seen
        if self._settings.server.config_reload_on_change:
            _logger.info("reloading changed=%s", self._path)
            with suppress(ConfigError):  # the reload logs it
                await reload(self._settings, self._io, self._certificates)
        else:
            await self._tell()

    async def _tell(self) -> None:
        try:
            plan = await plan_reload(self._settings, self._io)
        except ConfigError as error:
            for fault in error.faults:
                _logger.warning(
                    "settings file has changed, a reload would change nothing: %s", fault
                )
            return
        if plan.now or plan.restart:
            _logger.info(
                "settings file has changed, siltstone diff shows how, siltstone reload takes it "
                "path=%s now=%d restart=%d",
                self._path,
                len(plan.now),
                len(plan.restart),
            )
