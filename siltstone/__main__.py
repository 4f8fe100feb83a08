"""``python -m siltstone`` runs the command ``siltstone`` if the command is not on the PATH."""

import sys

from siltstone.broker.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
