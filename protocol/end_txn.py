"""EndTxn requests and responses by hand, because producers of small transactions send many.

Versions 0 to 5; 3 flexible; 5 producer id and epoch of the next transaction (KIP-890). kio is the
oracle in tests.
"""

from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, behind

API_KEY: Final = 26
FIRST_WITH_EPOCH_BUMP: Final = 5
_FIRST_FLEXIBLE: Final = 3

_PRODUCER = Struct(">qhB")
_RESULT = Struct(">ih")
_RESULT_AND_PRODUCER = Struct(">ihqh")


class EndTxnRequest(NamedTuple):
    """An EndTxn request of any version."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


def parse(version: int, buffer: memoryview, position: int, end: int) -> EndTxnRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Raises:
        ProtocolError: a length does not fit, or the transactional id is null.
    """
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    transactional_id, position = encoding.string(buffer, position, end)
    start, position = position, behind(_PRODUCER.size, position, end)
    producer_id, epoch, committed = _PRODUCER.unpack_from(buffer, start)
    encoding.tags(buffer, position, end)
    return EndTxnRequest(transactional_id, producer_id, epoch, bool(committed))


def encode(
    version: int, correlation_id: int, error_code: int, producer_id: int = -1, epoch: int = -1
) -> bytes:
    """Return the response frame with its size prefix."""
    if version >= FIRST_WITH_EPOCH_BUMP:
        body = _RESULT_AND_PRODUCER.pack(0, error_code, producer_id, epoch)
    else:
        body = _RESULT.pack(0, error_code)
    if version >= _FIRST_FLEXIBLE:
        body += COMPACT.no_tags
    return response_head(API_KEY, version, correlation_id, len(body)) + body
