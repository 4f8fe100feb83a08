"""``python -m tools.compat``: see ``tools.compat.run``."""

import sys

from tools.compat.run import main

sys.exit(main(sys.argv[1:]))
