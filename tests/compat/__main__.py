"""``python -m tests.compat``: see ``tests.compat.run``."""

import sys

from tests.compat.run import main

sys.exit(main(sys.argv[1:]))
