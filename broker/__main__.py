"""The command ``siltstone``; its commands are in `broker.commands`.

Exit codes: 0 fine, 1 a fault (each in a sentence on stderr), 2 wrong usage or settings that are not
valid.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from siltstone import why_not_compiled
from siltstone.broker.commands.parser import parser_for
from siltstone.config.errors import ConfigError

_STDERR: Final = 2
_OUTPUT_IS_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _ready_output()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = parser_for(given).parse_args(given)
        if getattr(options, "ca", None):
            os.environ["SILTSTONE_CA"] = options.ca
        exit_code: int = options.run(options)
        sys.stdout.flush()  # while a failure can still be reported
    except ConfigError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return 2
    except ImportError as error:
        print(why_not_compiled(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has closed it (`siltstone config | head`).
        _drop_output()
        return 1
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_IS_FULL:
            raise
        print(f"siltstone: its output cannot be written: {error.strerror}", file=sys.stderr)
        _drop_output()
        return 1
    return exit_code


def _ready_output() -> None:
    """Have an output that takes every text: what its encoding lacks is escaped, as on stderr.

    Streams that were closed before the start lead nowhere. Otherwise the next file or socket would
    get such a stream's number; what is written to the stream would go there, and libuv aborts the
    process when it closes its own file with such a number.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
