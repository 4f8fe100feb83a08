"""The length of a thread's time slices, as the kernel reports it."""

import ctypes
import os
import platform
import struct

import pytest

_GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275, "riscv64": 275}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_RUNTIME = 5


def slice_of(thread_id: int = 0) -> int:
    """Return the nanoseconds; the test is skipped where the kernel knows none (before 6.12)."""
    number = _GET_ATTRIBUTES.get(platform.machine())
    if number is None:
        pytest.skip(f"the number of sched_getattr on {platform.machine()} is not known")
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if ctypes.CDLL(None, use_errno=True).syscall(number, thread_id, found, len(found), 0):
        pytest.skip(f"sched_getattr: {os.strerror(ctypes.get_errno())}")
    runtime: int = _ATTRIBUTES.unpack(found.raw)[_RUNTIME]
    if not runtime:
        pytest.skip("threads have no slice of their own before Linux 6.12")
    return runtime
