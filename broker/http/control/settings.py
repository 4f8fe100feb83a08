"""The pages of the control channel about settings: what a reload would do, and doing it.

Both want the token, since both have the broker read files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.http.values import Route, json_answer, text
from siltstone.broker.topics.settings.reload import plan_reload, reload
from siltstone.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from siltstone.broker.http.values import HttpRequest, HttpResponse
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.config.reloading import Plan

    Page = Callable[[HttpRequest], Awaitable[HttpResponse]]


class SettingsPages:
    """``/v1/reload`` and ``/v1/diff`` (loop only)."""

    def __init__(self, settings: BrokerSettings, io: IoThreads) -> None:
        self._settings = settings
        self._io = io

    def routes(self, guarded: Callable[[Page], Page]) -> tuple[Route, ...]:
        """Return the pages; ``guarded`` makes one ask for the token."""
        return (
            Route("POST", "/v1/reload", guarded(_telling(self._reload))),
            Route("POST", "/v1/diff", guarded(_telling(self._plan))),
        )

    def _reload(self) -> Coroutine[Any, Any, Plan]:
        return reload(self._settings, self._io)

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
