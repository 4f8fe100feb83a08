"""Sends the files of the web page, with headers that allow no other scripts in it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.broker.http.api.questions import STRICT_HEADERS
from siltstone.broker.http.values import HttpRequest, HttpResponse, Route

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/draw.js": ("draw.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_FOLDER = Path(__file__).parent / "files"


def routes() -> Iterator[Route]:
    """Yield a route for each file."""
    for path, (name, content_type) in FILES.items():
        yield Route("GET", path, partial(_send, name, content_type))


async def _send(name: str, content_type: str, _request: HttpRequest) -> HttpResponse:
    headers = (*STRICT_HEADERS, ("Content-Security-Policy", POLICY))
    return HttpResponse(body=_read(name), content_type=content_type, headers=headers)


def _read(name: str) -> bytes:
    """Return the content of a file; each request reads it, since requests are rare."""
    return (_FOLDER / name).read_bytes()
