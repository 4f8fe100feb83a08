"""Values that the parts of the HTTP port share: requests, answers, pages, limits."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits of one client: sizes in bytes, times in seconds.

    A client has ``head_seconds`` to begin its first request, and the same time for the head of each
    request; then it has ``request_seconds`` for the body. ``idle_seconds`` limits the time between
    requests; it is longer than the usual scrape interval, so that a scraper keeps its connection.
    """

    head_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    stranger_body_bytes: int = 4 * 1024
    read_bytes: int = 16 * 1024
    head_seconds: float = 5.0
    request_seconds: float = 10.0
    send_seconds: float = 10.0
    idle_seconds: float = 120.0
    connections: int = 64
    spare: int = 64


async def nobody(_request: "HttpRequest") -> "HttpResponse | None":
    """Refuse nobody."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which requests are served: those for these hosts, and all with the control token."""

    hosts: frozenset[str] = frozenset()
    """Names in lower case; addresses and ``localhost`` need not be listed. ``*`` means any name."""
    is_trusted: Callable[[Mapping[bytes, bytes]], bool] = lambda _headers: False
    """Whether these headers have the control token."""
    refuse: Callable[["HttpRequest"], Awaitable["HttpResponse | None"]] = nobody
    """The refusal of a reader that must prove its name and does not; otherwise None."""
    find_name: Callable[["HttpRequest"], str | None] = lambda request: request.certified
    """The name that an admitted reader has proven, if it has proven one."""


@dataclass(slots=True)
class Patience:
    """Since when the server waits for a client: for a request, or for room to send an answer.

    It is None while the client waits for the server.
    """

    since: float | None
    is_spare: bool = False
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A whole request; header names are in lower case, ``query`` is what follows ``?``.

    ``certified`` is the mapped name from the client's certificate, None without a certificate.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""
    certified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """An answer; if ``body`` is an iterator, each piece is sent as soon as it exists."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()
    after_seconds: float = 0.0
    """For how many seconds a refusal is delayed."""


Page: TypeAlias = "Callable[[HttpRequest], Awaitable[HttpResponse]]"
"""A function that answers the requests of one route."""


@dataclass(frozen=True, slots=True)
class Route:
    """One page: GET (which also answers HEAD) or POST on an exact path."""

    method: str
    path: str
    handle: Page
    is_urgent: bool = False
    """Whether the page is answered even while all places are taken."""


def text(status: int, sentence: str, *headers: tuple[str, str]) -> HttpResponse:
    """Return one plain sentence as an answer."""
    return HttpResponse(status=status, body=f"{sentence}\n".encode(), headers=headers)


def json_answer(value: object, status: int = 200) -> HttpResponse:
    """Return a value as an answer, indented for a person with curl."""
    body = json.dumps(value, indent=2).encode() + b"\n"
    return HttpResponse(status=status, body=body, content_type=JSON)
