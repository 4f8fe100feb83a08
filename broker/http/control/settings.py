"""The pages of the control channel about settings: those in force, and reloads.

``GET /v1/config`` answers with every setting of the broker and its source; secrets have no value.
The pages for a reload and for its preview require the token, since both make the broker read files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from siltstone.broker.http.values import HttpRequest, HttpResponse, Page, Route, json_answer, text
from siltstone.broker.process.io import IoThreads
from siltstone.broker.reload import plan_reload, reload
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.config.describe import show_as_json
from siltstone.config.errors import ConfigError
from siltstone.config.reloading import Plan
from siltstone.storage.directory.log_directory import LogDirectory

if TYPE_CHECKING:
    from siltstone.broker.net.tls.endpoints import Endpoints


@dataclass(frozen=True, slots=True)
class SettingsPages:
    """``/v1/config``, ``/v1/reload`` and ``/v1/diff`` (loop only)."""

    settings: BrokerSettings
    io: IoThreads
    directories: Sequence[LogDirectory] = ()
    certificates: Endpoints | None = None

    def routes(self, guarded: Callable[[Page], Page]) -> tuple[Route, ...]:
        """Return the pages; ``guarded`` makes a page require the token."""
        reloading = partial(reload, self.settings, self.io, self.certificates)
        planning = partial(plan_reload, self.settings, self.io)
        return (
            Route("GET", "/v1/config", self._show),
            Route("POST", "/v1/reload", guarded(_telling(reloading))),
            Route("POST", "/v1/diff", guarded(_telling(planning))),
        )

    async def _show(self, _request: HttpRequest) -> HttpResponse:
        return json_answer(
            {
                "log_dirs": [str(each.path) for each in self.directories],
                "settings": list(show_as_json(self.settings.layers)),
            }
        )


def _telling(find_plan: Callable[[], Awaitable[Plan]]) -> Page:
    async def page(_request: HttpRequest) -> HttpResponse:
        try:
            plan = await find_plan()
        except ConfigError as error:
            return text(409, "\n".join(error.faults))
        return json_answer(
            {
                "now": [each._asdict() for each in plan.now],
                "restart": [each._asdict() for each in plan.restart],
                "shadowed": [each._asdict() for each in plan.shadowed],
            }
        )

    return page
