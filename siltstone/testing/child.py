"""The broker's process: the command ``siltstone``, until the test's process ends.

The other end of our standard input is in that process alone, so however it ends, by SIGKILL too,
this end sees it. Then the data are no longer needed.
"""

import os
import sys
import threading
from contextlib import suppress

from siltstone.broker.__main__ import main


def _end_with_parent(folder: str) -> None:
    """Wait for the end of the test's process; then go, and the folder too unless it has no name."""
    while os.read(0, 4096):
        pass
    if folder:
        # Which ends every thread that might write there.
        with suppress(OSError):
            os.execvp("rm", ["rm", "-rf", "--", folder])  # noqa: S606, S607
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, args=(sys.argv[1],), daemon=True).start()
    sys.exit(main(sys.argv[2:]))
