"""Several disks that one power failure may leave: each is judged by a copy of the process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def find_fault(judge: Callable[[], None]) -> str | None:
    """Return what a judge finds wrong, None if nothing is; all that it does is forgotten."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            judge()
        except BaseException as error:  # noqa: BLE001  # the copy ends here in any case
            os.write(writes, f"{type(error).__name__}: {error}"[:9_999].encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        fault = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return fault or (f"the copy of the process has ended with {status}" if status else None)
