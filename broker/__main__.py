"""The command ``siltstone`` and its subcommands.

Exit codes: 0 fine, 1 a fault (each in a sentence on stderr), 2 wrong usage. Parts are imported by
the command that needs them, so that each starts as fast as it can.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone import VERSION
from siltstone.broker.commands import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        # The reader of the output has closed it (`siltstone config | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="siltstone",
        description="A Kafka broker on one machine, over Kafka's own files.",
        epilog=_examples("serve", "explain orders", "COMMAND --help"),
    )
    parser.add_argument("--version", action=_ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = _add(
        commands,
        "serve",
        "run the broker in the foreground until SIGTERM",
        _serve,
        "serve --config server.yaml",
        "serve --set log.dirs=/var/lib/siltstone --log-level warning",
        json_words="write log lines as JSON, as --log-format json does",
    )
    for name, (choices, default) in _LOG_OPTIONS.items():
        option = f"--log-{name}"
        serve.add_argument(
            option,
            choices=choices,
            default=os.environ.get(_log_variable(name), "").lower() or default,
            help=f"default: the environment's {_log_variable(name)}, else {default}",
        )
    _add(
        commands,
        "config",
        "print every effective setting and its source, dynamic ones too",
        _config,
        "config --config server.yaml",
        "config --json --set log.dirs=/var/lib/siltstone",
    )
    _add(
        commands,
        "check",
        "report every fault of the settings; start nothing",
        _check,
        "check --config server.properties",
        "check --json --config server.yaml",
    )
    health = _add(
        commands,
        "health",
        "ask a running broker whether it is ready",
        _health,
        "health",
        "health --timeout 4 --set http.listener=127.0.0.1:9464",
    )
    health.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS")
    _add(
        commands,
        "reload",
        "have the broker read its settings again, as SIGHUP does",
        _reload,
        "reload",
        "reload --set log.dirs=/var/lib/siltstone",
    )
    _add(
        commands,
        "diff",
        "print what a reload would change now, and a restart later",
        _diff,
        "diff",
        "diff --json",
    )

    _add_cleaner_commands(commands)

    pins = _add(
        commands,
        "pins",
        "show who pins segment files, and what only pins keep on the disk",
        _pins,
        "pins",
        "pins --release 0f3c",
    )
    pins.add_argument("--release", metavar="ID", help="end a pin whose reader is gone")

    dump = _add(
        commands,
        "dump-log",
        "print and check segment, index, snapshot and checkpoint files",
        _dump_log,
        "dump-log siltstone-data/orders-0",
        "dump-log --print-data --json orders-0/00000000000000000000.log",
        has_settings=False,
    )
    dump.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    dump.add_argument("--deep-iteration", action="store_true", help="print each record, too")
    dump.add_argument("--print-data", action="store_true", help="with keys, values and headers")

    _add(
        commands,
        "version",
        "print the version and whether the kernels are compiled",
        _version,
        "version",
        "version --json",
        has_settings=False,
    )
    return parser


def _add(  # what every command has
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    words: str,
    run: Callable[[argparse.Namespace], int],
    *examples: str,
    has_settings: bool = True,
    json_words: str = "print JSON",
) -> _Parser:
    """Add a command with what every one has: settings, --json, --version and examples."""
    parser = commands.add_parser(
        name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.",
        epilog=_examples(*examples),
    )
    if has_settings:
        _add_settings(parser)
    parser.add_argument("--json", action="store_true", help=json_words)
    parser.add_argument("--version", action=_ShowVersion)
    parser.set_defaults(run=run)
    return parser


def _examples(*examples: str) -> str:
    return "\n".join(["examples:", *(f"  siltstone {each}" for each in examples)])


class _ShowVersion(argparse.Action):
    """Prints the version and ends; `siltstone version` says more."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"siltstone {VERSION}")
        parser.exit()


class _Formatter(argparse.HelpFormatter):
    """Help whose examples stay lines of their own, so that they can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser that finds the width for its help by itself.

    Otherwise argparse asks `shutil`, at every start and not only for help, and with that comes
    every format of archives: half a MiB, and a hundredth of a start.
    """

    def __init__(self, **options: Any) -> None:
        formatter = partial(_Formatter, width=find_width())
        super().__init__(formatter_class=formatter, **options)


@cache
def find_width() -> int:
    """Return how many columns help has, as argparse would find out by importing `shutil`."""
    width = (terminal.find_width() or 0) - 2
    return width if width > 0 else _WIDTH


def _add_cleaner_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    which = "a topic or one of its partitions (default: all)"

    explain = _add(
        commands,
        "explain",
        "say why partitions are or are not compacted, and what a pass would do",
        _explain,
        "explain",
        "explain orders-3 --dry-run",
        "explain --failed --json",
        json_words="print codes and numbers",
    )
    explain.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)
    explain.add_argument(
        "--dry-run", action="store_true", help="read the logs as a pass would and predict it"
    )
    explain.add_argument(
        "--waiting", action="store_true", help="only those that have something to clean, and wait"
    )
    explain.add_argument(
        "--failed", action="store_true", help="only those that could not be cleaned or read"
    )

    clean = _add(
        commands,
        "clean",
        "have a topic compacted now, whatever its ratio",
        _clean,
        "clean orders --wait",
        "clean orders-3 --force",
        "clean orders --roll --wait",
    )
    clean.add_argument("name", metavar="TOPIC[-PARTITION]")
    clean.add_argument("--wait", action="store_true", help="until it is done, and say what it did")
    clean.add_argument("--timeout", type=_seconds, default=3600.0, metavar="SECONDS")
    clean.add_argument(
        "--force", action="store_true", help="records younger than min.compaction.lag.ms, too"
    )
    clean.add_argument(
        "--roll", action="store_true", help="close the active segments first, so that they are, too"
    )

    history = _add(
        commands,
        "history",
        "print the passes of the cleaner",
        _history,
        "history orders",
        "history --json",
        json_words="one line of JSON each, with receipts",
    )
    history.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)

    verify = _add(
        commands,
        "verify",
        "check compacted folders and the cleaner's receipts; the broker is stopped",
        _verify,
        "verify --set log.dirs=/var/lib/siltstone",
        "verify orders --json",
    )
    verify.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=which)


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
    layers, faults = _read_settings(options)
    for fault in faults:
        print(fault, file=sys.stderr)
    return None if faults else layers


def _read_settings(options: argparse.Namespace) -> tuple[Layers | None, list[str]]:
    """Return the settings if they can be taken, and every fault."""
    from siltstone.config.errors import ConfigError
    from siltstone.config.load import load

    path = None if options.config is None else Path(options.config)
    faults = list(_log_faults())
    try:
        return load(path, os.environ, options.sets), faults
    except ConfigError as error:
        return None, [*faults, *error.faults]


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

    logs.configure("json" if options.json else options.log_format, options.log_level)
    try:
        return run(layers)
    except StartError as error:
        return _fail(str(error))


def _config(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    import json

    from siltstone.broker.topics.settings.stored import with_stored
    from siltstone.config.show import show, show_as_json
    from siltstone.storage.directory.catalog import Catalog
    from siltstone.storage.directory.log_directory import LogDirError

    catalog = Catalog([Path(name) for name in layers.server().log_dirs])
    fault = None
    try:
        catalog.load()
    except LogDirError as error:
        fault = f"what was changed while the broker ran is not shown: {error}"
    effective = with_stored(layers, catalog.state)
    if options.json:
        print(json.dumps(list(show_as_json(effective)), indent=2))
    else:
        for line in show(effective):
            print(line)
    return 0 if fault is None else _fail(fault)


def _check(options: argparse.Namespace) -> int:
    layers, faults = _read_settings(options)
    warnings = () if layers is None else layers.warnings
    if options.json:
        import json

        print(json.dumps({"faults": faults, "warnings": warnings}, indent=2))
    else:
        for sentence in (*faults, *warnings):
            print(sentence, file=sys.stderr)
        if not faults:
            print("the settings are fine")
    return 1 if faults else 0


def _health(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.asking import NobodyAnswers, find_address
    from siltstone.broker.commands.health import run_health, tell

    try:
        address = find_address(layers)
    except NobodyAnswers as error:
        return tell(error.advice, is_ready=False, as_json=options.json)
    return run_health(address, options.timeout, as_json=options.json)


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
    from siltstone.broker.commands.cleaner import Asked, run_explain

    asked = Asked(options.json, options.dry_run, options.waiting, options.failed)
    return run_explain(layers, options.name, asked)


def _clean(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.cleaner import run_clean

    return run_clean(
        layers,
        options.name,
        is_forced=options.force,
        rolls=options.roll,
        waits=options.wait,
        seconds=options.timeout,
        as_json=options.json,
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

    return run_verify(layers, options.name, as_json=options.json)


def _pins(options: argparse.Namespace) -> int:
    layers = _load(options)
    if layers is None:
        return 2
    from siltstone.broker.commands.pins import run_pins

    return run_pins(layers, options.release, as_json=options.json)


def _dump_log(options: argparse.Namespace) -> int:
    from siltstone.storage.dump.any_file import run

    return run(
        options.paths,
        deep=options.deep_iteration,
        data=options.print_data,
        as_json=options.json,
    )


def _version(options: argparse.Namespace) -> int:
    from siltstone.protocol import core

    kernels = "compiled" if core.COMPILED else "off"
    if options.json:
        import json

        print(json.dumps({"version": VERSION, "kernels": kernels}))
    else:
        print(f"siltstone {VERSION}, kernels {kernels}")
    return 0


def _fail(sentence: str) -> int:
    print(f"siltstone: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
