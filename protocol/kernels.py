"""The kernel of frames, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol._request_kernels import COMPILED, next_frame
else:
    _requests = choose("protocol._request_kernels")
    COMPILED = _requests.COMPILED
    next_frame = _requests.next_frame

__all__ = ["COMPILED", "next_frame"]
