"""``siltstone dump-log``: files of log directories as text, and whether they are whole."""

import argparse
import re
import sys
import time
from pathlib import Path

from siltstone.broker.commands.internal_records import describe_for
from siltstone.broker.commands.options import moment
from siltstone.storage.dump.any_file import run
from siltstone.storage.dump.log_file import Wanted

_LAST_OFFSET = (1 << 63) - 1
_POLL_SECONDS = 0.2


def add_dump_log(parser: argparse.ArgumentParser) -> None:
    """Add the options: which files, what to print of them, and how much."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    parser.add_argument("--deep-iteration", action="store_true", help="print each record, too")
    parser.add_argument(
        "--print-data",
        action="store_true",
        help="with keys, values and headers; records of internal topics by what they mean",
    )
    parser.add_argument(
        "--offsets",
        type=_range,
        default=(0, _LAST_OFFSET),
        metavar="FIRST-LAST",
        help="only these, in logs only; either may be left out",
    )
    parser.add_argument(
        "--since", type=_moment, default=-1, metavar="TIME", help="in ms since 1970, or ISO 8601"
    )
    parser.add_argument("--until", type=_moment, default=_LAST_OFFSET, metavar="TIME")
    parser.add_argument(
        "--follow", action="store_true", help="wait for more in one log, or a folder's newest"
    )


def run_dump_log(options: argparse.Namespace) -> int:
    """Print what is in the files; return 1 if one is not whole."""
    if options.follow and len(options.paths) > 1:
        sys.stderr.write("dump-log --follow wants one log or folder\n")
        return 2
    if options.since > options.until:
        sys.stderr.write("dump-log: --since is later than --until; nothing is between them\n")
        return 2
    first_offset, last_offset = options.offsets
    wanted = Wanted(
        deep=options.deep_iteration or options.print_data,
        data=options.print_data,
        first_offset=first_offset,
        last_offset=last_offset,
        since_ms=options.since,
        until_ms=options.until,
        describe=describe_for if options.print_data else lambda _: None,
    )
    wait = _wait if options.follow else None
    return run(options.paths, wanted, as_json=options.json, wait=wait)


def _wait() -> None:
    """Wait a moment for the log to grow."""
    sys.stdout.flush()
    time.sleep(_POLL_SECONDS)


def _range(text: str) -> tuple[int, int]:
    """Return the first and the last offset of FIRST-LAST."""
    match = re.fullmatch(r"([0-9]*)-([0-9]*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not FIRST-LAST, as 100-199, 100- or -199")
    first, last = int(match[1] or 0), int(match[2] or _LAST_OFFSET)
    if first > last:
        raise argparse.ArgumentTypeError(f"{text} has none; write the lower offset first")
    return first, last


def _moment(text: str) -> int:
    """Return a time in ms since 1970."""
    try:
        return moment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
