"""Options that several commands share: the settings, numbers and times."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.config.errors import ConfigError

if TYPE_CHECKING:
    from siltstone.config.layers import Layers

LOG_OPTIONS = {
    "format": (("console", "json"), "console"),
    "level": (("debug", "info", "warning", "error"), "info"),
}
"""The values of ``--log-NAME`` and of its variable of the environment, and the default."""

ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}
"""The meaning of a letter behind a backslash, in a format or a separator."""

_LONGEST_SECONDS = 1e9  # some thirty years, since sockets do not accept infinity


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where settings come from."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=_first_file(os.environ.get("SILTSTONE_CONFIG", "")),
        help="server.yaml, or server.properties as Kafka has it (default: the environment's "
        "SILTSTONE_CONFIG, of several parted by : the first that exists; else no file)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="sets",
        help="a setting over file and environment, such as log.segment.bytes=1048576; repeatable",
    )


def _first_file(paths: str) -> Path | None:
    """Return the first path that exists, else the last; colons separate the paths, as in PATH."""
    named = [Path(each) for each in paths.split(os.pathsep) if each]
    return next((each for each in named if each.exists()), named[-1] if named else None)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the authorities that a command trusts when it asks a broker over HTTPS."""
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help="PEM file of the authorities to trust where http.listener encrypts (default: the "
        "environment's SILTSTONE_CA, else the certificate noted in the first log directory)",
    )


def read_settings(options: argparse.Namespace) -> Layers:
    """Return the settings.

    Raises:
        ConfigError: The settings are not valid; the error has every fault.
    """
    layers, faults = try_settings(options)
    if layers is None or faults:
        raise ConfigError(faults)
    return layers


def try_settings(options: argparse.Namespace) -> tuple[Layers | None, list[str]]:
    """Return the settings, None if they are not valid, and every fault."""
    from siltstone.config.load import load  # noqa: PLC0415  # help needs no settings

    path = None if options.config is None else Path(options.config)
    faults = list(_log_faults())
    try:
        return load(path, os.environ, options.sets), faults
    except ConfigError as error:
        return None, [*faults, *error.faults]


def log_variable(name: str) -> str:
    """Return the variable of the environment that stands for ``--log-NAME``."""
    return f"SILTSTONE_LOG_{name.upper()}"


def _log_faults() -> Iterator[str]:
    for name, (choices, _) in LOG_OPTIONS.items():
        variable = log_variable(name)
        text = os.environ.get(variable, "")
        if text and text.lower() not in choices:
            yield f"{variable} is {text}; it must be one of {', '.join(choices)}"


def seconds(text: str) -> float:
    """Return the number of seconds that a user is ready to wait."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return found


def natural(text: str) -> int:
    """Return a whole number that is 0 or more."""
    return _number(text, 0)


def positive(text: str) -> int:
    """Return a whole number that is 1 or more."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} on")
    return int(text)


def moment(text: str) -> int:
    """Return a time, given in ms since 1970 or by ISO 8601, in ms since 1970.

    Raises:
        ValueError: The text is neither; the message says so.
    """
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    from datetime import UTC, datetime  # noqa: PLC0415  # half a MiB that the broker has no use for

    try:
        found = datetime.fromisoformat(text)
        return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        wanted = "ms since 1970, or ISO 8601 as 2026-11-23T12:00:00"
        raise ValueError(f"{text} is no time; write {wanted}") from error
