"""The pages of the control channel about settings: those in force, and reloads.

``GET /v1/config`` answers with every setting of the broker and its source; secrets have no value.
The pages for a reload and for its preview require the token, since both make the broker read files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.http.values import Route, json_answer, text
from siltstone.broker.reload import plan_reload, reload
from siltstone.config.describe import show_as_json
from siltstone.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from siltstone.broker.http.values import HttpRequest, HttpResponse, Page
    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.config.reloading import Plan
    from siltstone.storage.directory.log_directory import LogDirectory


class SettingsPages:
    """``/v1/config``, ``/v1/reload`` and ``/v1/diff`` (loop only)."""

    def __init__(
        self,
        settings: BrokerSettings,
        io: IoThreads,
        directories: Sequence[LogDirectory] = (),
        certificates: Endpoints | None = None,
    ) -> None:
        self._settings = settings
        self._io = io
        self._directories = directories
        self._certificates = certificates

    def routes(self, guarded: Callable[[Page], Page]) -> tuple[Route, ...]:
        """Return the pages; ``guarded`` makes a page require the token."""
        return (
            Route("GET", "/v1/config", self._show),
            Route("POST", "/v1/reload", guarded(_telling(self._reload))),
            Route("POST", "/v1/diff", guarded(_telling(self._plan))),
        )

    async def _show(self, _request: HttpRequest) -> HttpResponse:
        return json_answer(
            {
                "log_dirs": [str(each.path) for each in self._directories],
                "settings": list(show_as_json(self._settings.layers)),
            }
        )

    def _reload(self) -> Coroutine[Any, Any, Plan]:
        return reload(self._settings, self._io, self._certificates)

    def _plan(self) -> Coroutine[Any, Any, Plan]:
        return plan_reload(self._settings, self._io)


def _telling(find_plan: Callable[[], Awaitable[Plan]]) -> Page:
    async def page(_request: HttpRequest) -> HttpResponse:
        try:
            plan = await find_plan()
        except ConfigError as error:
            return text(409, "\n".join(error.faults))
        return json_answer(plan_answer(plan))

    return page


def plan_answer(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return {
        "now": [each._asdict() for each in plan.now],
        "restart": [each._asdict() for each in plan.restart],
        "shadowed": [each._asdict() for each in plan.shadowed],
    }
