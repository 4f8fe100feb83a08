"""Where a frame ends: compiled, or plain Python as it stands.

No length is believed before it was compared with the end of what is there.
The types of the compiled form stand in ``_request_kernels.pxd``; import `protocol.kernels`.
"""

from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.framing import describe_bad_size

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.records._portable import acquire, no_region, read_int32, release

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled


def next_frame(buffer: "Buffer", position: int, filled: int, limit: int) -> int:
    """Return where the frame at ``position`` ends; it is complete if that is not past ``filled``.

    A frame is never copied: its header starts at ``position + SIZE_PREFIX``. While fewer than four
    bytes are there the answer is the end of the prefix. Either way the answer minus ``position`` is
    how much room the buffer needs, so nothing is reserved before the size has been judged.

    Raises:
        ProtocolError: the size is negative, zero or above ``limit``.
    """
    if filled - position < 4:
        return position + 4
    region = no_region()
    acquire(buffer, region)
    size = 0
    if position >= 0 and filled <= region.len:
        size = read_int32(region.buf, position)
    release(region)
    if 0 < size <= limit:
        return position + 4 + size
    prefix = bytes(memoryview(buffer)[position : position + 4])
    raise ProtocolError(describe_bad_size(size, prefix, limit))
