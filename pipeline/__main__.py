"""``python -m pipeline JOB …``; ``spark-submit … pipeline/__main__.py JOB …`` is the same."""

import sys
from pathlib import Path

# As a script it has its own folder in front of the path, whose names are not for everybody.
if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from pipeline.command.cli import main  # see above

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
