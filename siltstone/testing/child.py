"""The broker's process: it runs the command ``siltstone`` until the test's process ends.

Only the test's process has the other end of our standard input, so this process sees when that
process ends, even by SIGKILL. Then the data are no longer needed.
"""

import os
import sys
import threading
from contextlib import suppress

from siltstone.broker.__main__ import main


def _end_with_parent(folder: str) -> None:
    """Wait for the end of the test's process; then exit, and remove ``folder`` if one is given."""
    while os.read(0, 4096):
        pass
    if folder:
        # This ends every thread that might write into the folder.
        with suppress(OSError):
            os.execvp("rm", ["rm", "-rf", "--", folder])  # noqa: S606, S607
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, args=(sys.argv[1],), daemon=True).start()
    sys.exit(main(sys.argv[2:]))
