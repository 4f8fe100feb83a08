"""``python -m siltstone.pipeline JOB …``, or ``spark-submit … pipeline/__main__.py JOB …``."""

import sys

from siltstone.pipeline.command.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
