"""The command ``siltstone`` and its subcommands.

Exit codes: 0 fine, 1 a fault (each in a sentence on stderr), 2 wrong usage. Parts are imported by
the command that needs them, so that each starts as fast as it can.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.config.layers import Layers

_LONGEST_SECONDS = 1e9  # some thirty years: sockets take no infinity
_WIDTH = 78  # of help that goes to no terminal
_LOG_OPTIONS = {
    "format": (("console", "json"), "console"),
    "level": (("debug", "info", "warning", "error"), "info"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        exit_code: int = options.run(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has had enough (`siltstone config | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="siltstone", description="A Kafka broker on one machine, over Kafka's own files."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the broker in the foreground until SIGTERM")
    _add_settings(serve)
    for name, (choices, default) in _LOG_OPTIONS.items():
        option = f"--log-{name}"
        serve.add_argument(
            option,
            choices=choices,
            default=os.environ.get(_log_variable(name), "").lower() or default,
            help=f"default: the environment's {_log_variable(name)}, else {default}",
        )
    serve.set_defaults(run=_serve)

    show = commands.add_parser(
        "config", help="print every effective setting and its source, dynamic ones too"
    )
    _add_settings(show)
    show.set_defaults(run=_config)

    check = commands.add_parser("check", help="report every fault of the settings; start nothing")
    _add_settings(check)
    check.set_defaults(run=_check)

    health = commands.add_parser("health", help="ask a running broker whether it is ready")
    _add_settings(health)
    health.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS")
    health.set_defaults(run=_health)

    for name, words, run in (
        ("reload", "have the broker read its settings again, as SIGHUP does", _reload),
        ("diff", "print what a reload would change now, and a restart later", _diff),
    ):
        again = commands.add_parser(name, help=words)
        _add_settings(again)
        again.add_argument("--json", action="store_true", help="print it as JSON")
        again.set_defaults(run=run)

    _add_cleaner_commands(commands)

    pins = commands.add_parser(
        "pins", help="show who pins segment files, and what only pins keep on the disk"
    )
    _add_settings(pins)
    pins.add_argument("--json", action="store_true", help="print codes and numbers")
    pins.add_argument("--release", metavar="ID", help="end a pin whose reader is gone")
    pins.set_defaults(run=_pins)

    dump = commands.add_parser(
        "dump-log", help="print and check segment, index, snapshot and checkpoint files"
    )
    dump.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    dump.add_argument("--deep-iteration", action="store_true", help="print each record, too")
    dump.add_argument("--print-data", action="store_true", help="with keys, values and headers")
    dump.set_defaults(run=_dump_log)

    commands.add_parser(
        "version", help="print the version and whether the kernels are compiled"
    ).set_defaults(run=_version)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that finds the width for its help by itself.

    Otherwise argparse asks `shutil`, at every start and not only for help, and with that comes
    every format of archives: half a MiB, and a hundredth of a start.
    """

    def __init__(self, **options: Any) -> None:
        formatter = partial(argparse.HelpFormatter, width=_find_width())
        super().__init__(formatter_class=formatter, **options)


@cache
def _find_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns) - 2
    with suppress(OSError, ValueError, AttributeError):  # no terminal, or no stdout at all
        width = os.get_terminal_size(sys.stdout.fileno()).columns - 2
        if width > 0:
            return width
    return _WIDTH


def _add_cleaner_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    which = "a topic or one of its partitions (default: all)"

    explain = commands.add_parser(
        "explain", help="say why partitions are or are not compacted, and what a pass would do"
    )
    _add_settings(explain)
    explain.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)
    explain.add_argument("--json", action="store_true", help="print codes and numbers")
    explain.add_argument(
        "--dry-run", action="store_true", help="read the logs as a pass would and predict it"
    )
    explain.set_defaults(run=_explain)

    clean = commands.add_parser("clean", help="have a topic compacted now, whatever its ratio")
    _add_settings(clean)
    clean.add_argument("name", metavar="TOPIC[-PARTITION]")
    clean.add_argument("--wait", action="store_true", help="until it is done, and say what it did")
    clean.add_argument("--timeout", type=_seconds, default=3600.0, metavar="SECONDS")
    clean.add_argument(
        "--force", action="store_true", help="records younger than min.compaction.lag.ms, too"
    )
    clean.set_defaults(run=_clean)

    history = commands.add_parser("history", help="print the passes of the cleaner")
    _add_settings(history)
    history.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)
    history.add_argument("--json", action="store_true", help="one line of JSON each, with receipts")
    history.set_defaults(run=_history)

    verify = commands.add_parser(
        "verify", help="check compacted folders and the cleaner's receipts; the broker is stopped"
    )
    _add_settings(verify)
    verify.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)
    verify.set_defaults(run=_verify)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=os.environ.get("SILTSTONE_CONFIG") or None,
        help="server.yaml, or server.properties as Kafka has it (default: the environment's "
        "SILTSTONE_CONFIG, else no file)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="sets",
        help="a setting over file and environment, such as log.segment.bytes=1048576; repeatable",
    )


def _seconds(text: str) -> float:
    """Return how long somebody is ready to wait."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def _load(options: argparse.Namespace) -> Layers | None:
    """Return the settings, or None after every fault has been printed."""
    from siltstone.config.errors import ConfigError
    from siltstone.config.load import load

    path = None if options.config is None else Path(options.config)
    layers = None
    faults = list(_log_faults())
    try:
        layers = load(path, os.environ, options.sets)
    except ConfigError as error:
        faults += error.faults
    for fault in faults:
        print(fault, file=sys.stderr)
    return None if faults else layers


def _log_variable(name: str) -> str:
    return f"SILTSTONE_LOG_{name.upper()}"


def _log_faults() -> Iterator[str]:
    for name, (choices, _) in _LOG_OPTIONS.items():
        variable = _log_variable(name)
        text = os.environ.get(variable, "")
        if text and text.lower() not in choices:
            yield f"{variable} is {text}; it must be one of {', '.join(choices)}"


def _serve(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.process import logs
    from siltstone.broker.process.run import StartError, run

    logs.configure(options.log_format, options.log_level)
    try:
        return run(layers)
    except StartError as error:
        return _fail(str(error))


def _config(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.topics.settings.stored import with_stored
    from siltstone.config.show import show
    from siltstone.storage.directory.catalog import Catalog
    from siltstone.storage.directory.log_directory import LogDirError

    catalog = Catalog([Path(name) for name in layers.server().log_dirs])
    fault = None
    try:
        catalog.load()
    except LogDirError as error:
        fault = f"what was changed while the broker ran is not shown: {error}"
    for line in show(with_stored(layers, catalog.state)):
        print(line)
    return 0 if fault is None else _fail(fault)


def _check(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 1
    for warning in layers.warnings:
        print(warning, file=sys.stderr)
    print("the settings are fine")
    return 0


def _health(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.health import run_health

    return run_health(layers.server().http_address, options.timeout)


def _reload(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.reload import run_reload

    return run_reload(layers, as_json=options.json)


def _diff(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.reload import run_diff

    return run_diff(layers, as_json=options.json)


def _explain(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.cleaner import run_explain

    return run_explain(layers, options.name, as_json=options.json, is_dry_run=options.dry_run)


def _clean(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.cleaner import run_clean

    return run_clean(
        layers,
        options.name,
        is_forced=options.force,
        waits=options.wait,
        seconds=options.timeout,
    )


def _history(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.cleaner import run_history

    return run_history(layers, options.name, as_json=options.json)


def _verify(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.verify import run_verify

    return run_verify(layers, options.name)


def _pins(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.pins import run_pins

    return run_pins(layers, options.release, as_json=options.json)


def _dump_log(options: argparse.Namespace) -> int:
    from siltstone.storage.dump.any_file import run

    return run(options.paths, deep=options.deep_iteration, data=options.print_data)


def _version(_options: argparse.Namespace) -> int:
    from siltstone.protocol import core

    print(f"siltstone {VERSION}, kernels {'compiled' if core.COMPILED else 'off'}")
    return 0


def _fail(sentence: str) -> int:
    print(f"siltstone: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
