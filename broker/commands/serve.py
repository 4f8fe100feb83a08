"""``siltstone serve``: the broker itself."""

import argparse
import os
import signal
import sys
from pathlib import Path

from siltstone.broker.commands.options import LOG_OPTIONS, log_variable, read_settings


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options for logging, and those that tests use."""
    for name, (choices, default) in LOG_OPTIONS.items():
        parser.add_argument(
            f"--log-{name}",
            choices=choices,
            default=os.environ.get(log_variable(name), "").lower() or default,
            help=f"default: the environment's {log_variable(name)}, else {default}",
        )
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write addresses as JSON when clients are served; it is removed at the stop",
    )
    parser.add_argument(
        "--test-clock",
        action="store_true",
        help="let tests move the broker's clock; refused unless it listens on loopback alone",
    )
    parser.add_argument(
        "--test-faults",
        action="store_true",
        help="let tests have requests fail or be slow; refused likewise",
    )


def run_serve(options: argparse.Namespace) -> int:
    """Run the broker until a signal ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])  # run unblocks it
    try:
        return _serve(options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(options: argparse.Namespace) -> int:
    layers = read_settings(options)
    # Faults of the settings are reported before the broker is imported.
    from siltstone.broker.process import logs  # noqa: PLC0415
    from siltstone.broker.process.trial import Trial  # noqa: PLC0415
    from siltstone.broker.run import run  # noqa: PLC0415
    from siltstone.config.errors import StartError  # noqa: PLC0415

    logs.configure("json" if options.json else options.log_format, options.log_level)
    trial = Trial(moves_clock=options.test_clock, makes_faults=options.test_faults)
    try:
        return run(layers, trial, options.ready_file)
    except StartError as error:
        sys.stderr.write(f"siltstone: {error}\n")
        return 1
