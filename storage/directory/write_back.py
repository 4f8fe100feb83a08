"""Starting write-back of dirty pages early, so that the kernel never has to throttle an append.

``sync_file_range`` is not in ``os``: ctypes calls it and releases the GIL meanwhile. It is a hint
and no durability: no metadata is written, nothing is waited for, and where libc lacks it nothing
happens.
"""

from collections.abc import Callable
from functools import cache

from siltstone.protocol.parts import HasFileno

_SYNC_FILE_RANGE_WRITE = 2


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return libc's function, None where libc lacks it."""
    import ctypes  # noqa: PLC0415  # 1 MiB and 5 ms that a broker without load never needs

    try:
        function = ctypes.CDLL(None).sync_file_range
    except AttributeError:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function


def start_write_back(file: HasFileno, position: int, size: int) -> bool:
    """Ask the kernel to begin writing a range of ``file``; true if it took the hint."""
    function = _sync_file_range()
    if function is None:
        return False
    try:
        return function(file.fileno(), position, size, _SYNC_FILE_RANGE_WRITE) == 0
    except OSError:  # deleted and never opened meanwhile: nothing is left to write
        return False
