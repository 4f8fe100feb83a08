"""Sends the files of the web page, with headers that allow no other scripts in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.broker.http.api.questions import STRICT_HEADERS
from siltstone.broker.http.values import HttpResponse, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.http.values import HttpRequest

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
        yield Route("GET", path, _File(name, content_type).answer)


class _File:
    """One file; each request reads it from the disk, since requests are rare."""

    def __init__(self, name: str, content_type: str) -> None:
        self._path = _FOLDER / name
        self._content_type = content_type

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        """Return the file."""
        return HttpResponse(
            body=self._path.read_bytes(),
            content_type=self._content_type,
            headers=(*STRICT_HEADERS, ("Content-Security-Policy", POLICY)),
        )
