"""The current certificates and TLS settings of every listener, from the start or a reload.

A reload reads the files that the settings name again. If one file has a fault, the reload uses none
of them. Open connections keep the certificates that they began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.broker.net.tls.contexts import Endpoint, TlsError, files_of, make_endpoint
from siltstone.broker.net.tls.handshakes import Handshakes, Turns
from siltstone.broker.process.io import IoThreads
from siltstone.config.errors import ConfigError
from siltstone.config.tls import TlsConfig
from siltstone.storage import files

if TYPE_CHECKING:
    from siltstone.broker.security.audit import Audit

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the files are checked for a change."""


class Made(NamedTuple):
    """The content of the files when they were read, and the settings that named them."""

    number: int
    """The order in which reads began: a later read has a higher number."""
    settings: Mapping[str, TlsConfig]
    endpoints: Mapping[str, Endpoint]


class Endpoints:
    """The handshakes of each listener that encrypts, by its name (loop only).

    ``on_taken`` is called with each endpoint that a reload puts in force.
    """

    def __init__(
        self,
        settings: Mapping[str, TlsConfig],
        io: IoThreads,
        audit: Audit | None = None,
        on_taken: Callable[[str, Endpoint], None] = lambda _name, _endpoint: None,
    ) -> None:
        """Read all keys and certificates. Blocks.

        Raises:
            TlsError: A file, a key or a certificate cannot be used.
            OSError: The system lacks descriptors or memory.
        """
        turns = Turns(io)
        self._settings = settings
        self._io = io
        self._seen = _look(settings)
        self._on_taken = on_taken
        self._begun = self._taken = 0
        self.handshakes: Mapping[str, Handshakes] = {
            name: Handshakes(name, endpoint, turns, audit) for name, endpoint in _make_all(settings)
        }
        for name, each in self.handshakes.items():
            _tell(name, each.endpoint)

    async def check(self, settings: Mapping[str, TlsConfig]) -> None:
        """Read the files of new settings, before the settings are in force.

        Raises:
            ConfigError: It cannot be used; what runs goes on.
        """
        if settings != self._settings:
            await self._make(settings)

    async def follow(self, settings: Mapping[str, TlsConfig]) -> None:
        """Switch to the settings that are now in force; a fault is only logged."""
        if settings != self._settings:
            self._settings = settings
            await self._renew()

    async def make(self, settings: Mapping[str, TlsConfig] | None = None) -> Made:
        """Read the files for `take`: those of the given settings, or else of the current ones.

        Raises:
            ConfigError: One cannot be used; what runs goes on.
        """
        settings = self._settings if settings is None else settings
        self._begun += 1
        number = self._begun
        seen = await self._io.run(_look, settings)
        try:
            made = await self._make(settings)
        except ConfigError as error:
            if isinstance(error.__cause__, TlsError):  # otherwise `look` tries again
                self._seen = seen
            raise
        self._seen = seen
        return Made(number, settings, made)

    async def _make(self, settings: Mapping[str, TlsConfig]) -> dict[str, Endpoint]:
        try:
            return await self._io.run(lambda: dict(_make_all(settings)))
        except OSError as error:  # a fault of the machine, such as no descriptors
            raise ConfigError([f"certificates cannot be read: {error}"]) from error
        except TlsError as error:
            raise ConfigError([str(error)]) from error

    def take(self, made: Made) -> None:
        """Put the result of `make` in force, for handshakes that begin from now on.

        It does not replace files that were read later and are already in force.
        """
        if made.number < self._taken:
            return
        self._taken = made.number
        self._settings = made.settings
        for name, endpoint in made.endpoints.items():
            handshakes = self.handshakes[name]
            if endpoint.certificate != handshakes.endpoint.certificate:
                _tell(name, endpoint)
            handshakes.endpoint = endpoint
            self._on_taken(name, endpoint)

    async def watch(self) -> None:
        """Reload files that have changed; a fault is only logged, once."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Reload the files if one of them has changed since the last read."""
        if await self._io.run(_look, self._settings) != self._seen:
            await self._renew()

    async def _renew(self) -> None:
        try:
            made = await self.make()
            while made.settings is not self._settings:  # other settings came into force meanwhile
                made = await self.make()
            self.take(made)
        except ConfigError as error:
            for fault in error.faults:
                # TRY400: a fault in a file of a user, not in the code.
                _logger.error("certificates are not reloaded, nothing has changed: %s", fault)  # noqa: TRY400


def _tell(name: str, endpoint: Endpoint) -> None:
    _logger.info(
        "certificate listener=%s subject=%r not_after=%s",
        name,
        endpoint.certificate.subject,
        endpoint.certificate.not_after.isoformat(),
    )
    for note in endpoint.notes:
        _logger.warning("certificate listener=%s: %s", name, note)


def _make_all(settings: Mapping[str, TlsConfig]) -> Iterator[tuple[str, Endpoint]]:
    for name, each in settings.items():
        try:
            yield name, make_endpoint(each)
        except TlsError as error:
            raise TlsError(f"the listener {name} cannot encrypt: {error}") from error


def _look(settings: Mapping[str, TlsConfig]) -> list[files.Look | None]:
    """Return the facts about files that show a change. Blocks."""
    return [files.look_at(path) for each in settings.values() for path in files_of(each)]
