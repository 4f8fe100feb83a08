"""``python -m siltstone.pipeline JOB …``, or ``spark-submit … pipeline/__main__.py JOB …``."""

import sys

from siltstone import why_not_compiled

try:
    from siltstone.pipeline.command.cli import main
except ImportError as error:
    sys.exit(str(why_not_compiled(error)))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
