"""What `_append_kernels.py` stands on uncompiled: the names of `_native_append.pxd`."""

import threading
from os import pwrite as write_at

__all__ = ["drop_lock", "new_lock", "take_lock", "write_at"]

new_lock = threading.Lock


def take_lock(lock: threading.Lock) -> None:
    """Wait until nobody else has it."""
    lock.acquire()


def drop_lock(lock: threading.Lock) -> None:
    """Let somebody else have it."""
    lock.release()
