"""What the process may use: open files above all, since every partition and client needs one."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

_WANTED_FILES = 1_000_000
_SCARCE_FILES = 10_000


def raise_open_files() -> int:
    """Raise RLIMIT_NOFILE as far as the system lets us and return it; warn if that is little."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft < _SCARCE_FILES:
        log.warning(
            "few open files allowed limit=%d: each partition and each client needs one; raise the "
            "hard limit (ulimit -Hn, or LimitNOFILE= of the service)",
            soft,
        )
    return soft
