"""The kernels of requests and answers, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol._request_kernels import (
        COMPILED,
        encode_single,
        encode_single_fetch,
        find_single,
        find_single_fetch,
        next_frame,
        read_head,
    )
else:
    _requests = choose("protocol._request_kernels")
    COMPILED = _requests.COMPILED
    encode_single = _requests.encode_single
    encode_single_fetch = _requests.encode_single_fetch
    find_single = _requests.find_single
    find_single_fetch = _requests.find_single_fetch
    next_frame = _requests.next_frame
    read_head = _requests.read_head

__all__ = [
    "COMPILED",
    "encode_single",
    "encode_single_fetch",
    "find_single",
    "find_single_fetch",
    "next_frame",
    "read_head",
]
