"""The control channel's pages for tests: move the clock, make requests fail, undo changes.

The pages exist with ``siltstone serve --test-clock`` or ``--test-faults``, and require the token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from siltstone.broker.api import APIS, Api
from siltstone.broker.http.values import HttpRequest, HttpResponse, Page, Route, json_answer, text
from siltstone.broker.net.faults import Failure, Faults
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.housekeeping import Housekeeping
from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.pins import PinRoom
from siltstone.config.errors import ConfigError
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.storage.clock import ShiftedClock

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.http.control.trial_state import TrialState

DISCONNECT: Final = "DISCONNECT"
"""In place of the name of an error: the connection closes."""

_MAX_ADVANCE_MS: Final = 1000 * 365 * 86_400_000  # a thousand years; clocks of clients end later
_MAX_SECONDS: Final = 3600.0
_DISK: Final = {"append": "Produce", "read": "Fetch", "commit": "OffsetCommit"}
_BY_NAME: Final = {api.name: api for api in APIS}
_ERRORS: Final = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}


@dataclass(frozen=True, slots=True)
class PassingTime:
    """Moves the clock, and does at once all periodic work that is due then (loop only).

    Everything that waits for a socket uses real time: long polls, idle connections, HTTP.
    """

    clock: ShiftedClock
    coordinators: OnFirstUse[Coordinators]
    housekeeping: Housekeeping
    pins: PinRoom
    cleaning: Cleaning
    io: IoThreads

    async def advance(self, milliseconds: int) -> None:
        """Move the clock; on return all work that is due is done, except the cleaner's passes."""
        self.clock.advance(milliseconds)
        if self.coordinators.built is not None:
            await self.coordinators.built.catch_up()
        await self.housekeeping.catch_up()
        await self.pins.look()
        await self.io.run(self.cleaning.pool.get().wake)


class TrialPages:
    """The pages ``/v1/trial/…`` (loop only); a part that is None has no pages."""

    def __init__(self, time: PassingTime | None, faults: Faults | None, state: TrialState) -> None:
        self._time = time
        self._faults = faults
        self._state = state

    def routes(self, guarded: Callable[[Page], Page]) -> tuple[Route, ...]:
        """Return the pages; ``guarded`` makes a page require the token."""
        pages: dict[str, Callable[[Mapping[str, str]], Awaitable[HttpResponse]]] = {}
        if self._time is not None:
            pages["clock"] = self._move_clock
        if self._faults is not None:
            pages |= {"fail": self._fail, "slow": self._slow}
        pages["reset"] = self._reset
        pages["state"] = self._tell_state
        return (
            *(
                Route("POST", f"/v1/trial/{name}", guarded(_asked(page)))
                for name, page in pages.items()
            ),
            Route("POST", "/v1/trial/restore", guarded(self._restore)),
        )

    async def _move_clock(self, asked: Mapping[str, str]) -> HttpResponse:
        assert self._time is not None  # noqa: S101  # otherwise there is no such page
        milliseconds = _number("advance_ms", asked.get("advance_ms", "0"), _MAX_ADVANCE_MS)
        await self._time.advance(int(milliseconds))
        clock = self._time.clock
        return json_answer({"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms})

    async def _fail(self, asked: Mapping[str, str]) -> HttpResponse:
        assert self._faults is not None  # noqa: S101  # likewise
        api = _find_api(asked.get("api", ""))
        times = int(_number("times", asked.get("times", "1"), 1 << 31))
        failure = Failure(_find_error(asked.get("error", "")), times, asked.get("topic"))
        self._faults.fail_next(api, failure)
        return json_answer({"api": api.name, "times": times})

    async def _slow(self, asked: Mapping[str, str]) -> HttpResponse:
        assert self._faults is not None  # noqa: S101  # likewise
        what = asked.get("what", "")
        api = _find_api(_DISK.get(what, what))
        seconds = _number("seconds", asked.get("seconds", ""), _MAX_SECONDS)
        self._faults.slow(api, seconds)
        return json_answer({"api": api.name, "seconds": seconds})

    async def _reset(self, _asked: Mapping[str, str]) -> HttpResponse:
        if self._faults is not None:
            self._faults.clear()
        if self._time is not None:
            self._time.clock.put_back()
        return json_answer({})

    async def _tell_state(self, _asked: Mapping[str, str]) -> HttpResponse:
        return json_answer(self._state.tell())

    async def _restore(self, request: HttpRequest) -> HttpResponse:
        try:
            await self._state.put_back(json.loads(request.body))
        except (ValueError, KeyError, TypeError, AttributeError):
            return text(400, f"{request.path} wants what /v1/trial/state has answered")
        except KafkaError as error:
            return text(409, error.message)
        except ConfigError as error:
            return text(409, str(error))
        return json_answer({})


def _asked(answer: Callable[[Mapping[str, str]], Awaitable[HttpResponse]]) -> Page:
    """Return a page that parses its query for ``answer``; invalid values are answered with 400."""

    async def page(request: HttpRequest) -> HttpResponse:
        try:
            return await answer(dict(parse_qsl(request.query)))
        except ValueError as error:
            return text(400, str(error))

    return page


def _find_api(name: str) -> Api:
    api = _BY_NAME.get(name)
    if api is None:
        raise ValueError(f"{name!r} is no API that this broker serves; {_nearest(name, _BY_NAME)}")
    return api


def _find_error(name: str) -> ErrorCode | None:
    if name == DISCONNECT:
        return None
    code = _ERRORS.get(name)
    if code is None:
        raise ValueError(f"{name!r} is no error of Kafka's; {_nearest(name, _ERRORS)}")
    return code


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return a question that suggests the nearest of the names, or one of them."""
    from difflib import get_close_matches  # noqa: PLC0415  # slow to import, and only here

    listed = list(names)
    nearest = get_close_matches(name[:100], listed, n=1, cutoff=0.4)
    return f"did you mean {nearest[0]}?" if nearest else f"{listed[0]} is one"


def _number(name: str, words: str, largest: float) -> float:
    try:
        number = float(words)
    except ValueError:
        number = math.nan
    if not 0 <= number <= largest:
        raise ValueError(f"{name}={words} is not a number from 0 to {largest:g}")
    return number
