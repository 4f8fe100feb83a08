"""Requests to the pages under ``/api/``: their values and rights, and the headers of answers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from siltstone.broker.http.values import JSON, HttpRequest, HttpResponse, Page, text
from siltstone.broker.process.loop_share import LoopShare

STRICT_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""The headers of every answer to a browser."""

SHARE_SECONDS: Final = 0.001
"""How long the work on an answer may hold the loop before others are served."""

_DATA_POLICY = ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
_SAME = frozenset({b"same-origin", b"none"})
_LONGEST_SHOWN = 100


class BadQuestion(Exception):  # noqa: N818  # an answer, not a fault of the broker
    """The request is not valid; the text says why and what would be valid."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class Question:
    """The query of a request: it may have each name once, and only names that the page knows."""

    def __init__(self, request: HttpRequest, names: Iterable[str] = ()) -> None:
        """Read the query.

        Raises:
            BadQuestion: The query has an unknown name, or a name twice.
        """
        from urllib.parse import parse_qsl  # noqa: PLC0415  # 4 ms, only where a page is asked

        known = set(names)
        self._path = request.path
        self._values: dict[str, str] = {}
        for name, value in parse_qsl(request.query, keep_blank_values=True):
            if name not in known:
                takes = ", ".join(sorted(known)) or "no query"
                raise BadQuestion(f"{request.path} takes {takes}, and not {shown(name)}")
            if name in self._values:
                raise BadQuestion(f"{request.path} was asked with {name} twice")
            self._values[name] = value

    def text(self, name: str) -> str:
        """Return a value; an empty text if it is not given."""
        return self._values.get(name, "")

    def wanted(self, name: str) -> str:
        """Return a value that must be given.

        Raises:
            BadQuestion: The value is missing.
        """
        value = self.text(name)
        if not value:
            raise BadQuestion(f"{self._path} wants ?{name}=")
        return value

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """Return a whole number.

        Raises:
            BadQuestion: The value is not a number, or out of bounds.
        """
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and lowest <= int(value[:20]) <= highest):
            raise BadQuestion(
                f"{self._path}: {name} is {shown(value)}; write a number from {lowest} to {highest}"
            )
        return int(value)

    def one_of(self, name: str, words: tuple[str, ...]) -> str:
        """Return one of these words; the first if no word is given.

        Raises:
            BadQuestion: The value is another word.
        """
        value = self.text(name) or words[0]
        if value not in words:
            raise BadQuestion(
                f"{self._path}: {name} is {shown(value)}; it is one of {', '.join(words)}"
            )
        return value


def shown(value: str) -> str:
    """Return text from a request in a form that is safe in a sentence."""
    return repr(value[:_LONGEST_SHOWN])


def answering(answer: Callable[[HttpRequest], Awaitable[dict[str, Any]]]) -> Page:
    """Return a page that answers with JSON, only to our own web page and to programs."""

    async def page(request: HttpRequest) -> HttpResponse:
        if is_foreign(request.headers):
            return _strict(text(403, "this is for the broker's own page, not for other sites"))
        try:
            value = await answer(request)
        except BadQuestion as error:
            return _strict(text(error.status, str(error)))
        return _strict(HttpResponse(body=written(value), content_type=JSON))

    return page


async def written(value: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """Yield an object as JSON, in pieces that take about a millisecond: its lists may be long."""
    share = LoopShare(SHARE_SECONDS)
    text, before = ["{"], ""
    for name, each in value.items():
        text.append(f"{before}{json.dumps(name)}: ")
        before = ", "
        if not isinstance(each, list):
            text.append(json.dumps(each))
            continue
        between = "["
        for one in each:
            text += (between, json.dumps(one))
            between = ", "
            if share.is_over:
                yield "".join(text).encode()
                text.clear()
                await share.turn()
        text.append("]" if each else "[]")
    text.append("}\n")
    yield "".join(text).encode()


def is_foreign(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether a page of another site has sent the request. Header names are in lower case."""
    if headers.get(b"sec-fetch-site", b"none") not in _SAME:
        return True
    origin = headers.get(b"origin")
    if origin is None:
        return False
    _, slashes, host = origin.partition(b"://")
    return not slashes or host.lower() != headers.get(b"host", b"").strip().lower()


def _strict(response: HttpResponse) -> HttpResponse:
    return replace(response, headers=(*response.headers, *STRICT_HEADERS, _DATA_POLICY))
