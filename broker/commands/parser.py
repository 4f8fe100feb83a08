"""The parser of the command line, built from the table of commands."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import siltstone
from siltstone import VERSION
from siltstone.broker.commands import terminal
from siltstone.broker.commands.options import add_settings, add_trust
from siltstone.broker.commands.table import COMMANDS, Command

_WIDTH = 78  # the width of help without a terminal


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser for these words; it has only their command, if the first word is one.

    Otherwise the parser serves the help, which names all commands without their arguments.
    """
    for command in COMMANDS:
        if arguments[:1] == [command.name]:
            return make_parser([command])
    parser, subparsers = _make_program()
    for command in COMMANDS:
        _add(subparsers, command)
    return parser


def make_parser(commands: Iterable[Command] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of these commands; completion and manual use the parser of all commands."""
    parser, subparsers = _make_program()
    for command in commands:
        command.add_arguments(_add(subparsers, command))
    return parser


def _make_program() -> tuple[_Parser, argparse._SubParsersAction[_Parser]]:
    parser = _Parser(
        prog="siltstone",
        description="A Kafka broker on one machine, over Kafka's own files.",
        epilog=_examples("serve", "explain orders", "COMMAND --help"),
    )
    parser.add_argument("--version", action=_ShowVersion)
    return parser, parser.add_subparsers(required=True, metavar="COMMAND")


def _add(subparsers: argparse._SubParsersAction[_Parser], command: Command) -> _Parser:
    """Add a command with what every one has: settings, --json, --version and examples."""
    words = command.words
    parser = subparsers.add_parser(
        command.name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.",
        epilog=_examples(*command.examples),
    )
    if command.has_settings:
        add_settings(parser)
    if command.asks_broker:
        add_trust(parser)
    parser.add_argument("--json", action="store_true", help=command.json_words)
    parser.add_argument("--version", action=_ShowVersion)
    parser.set_defaults(run=command.run)
    return parser


def _examples(*examples: str) -> str:
    return "\n".join(["examples:", *(f"  siltstone {each}" for each in examples)])


class _ShowVersion(argparse.Action):
    """Prints the version and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        sys.stdout.write(f"siltstone {VERSION}\n")
        parser.exit()


def run_version(options: argparse.Namespace) -> int:
    """Print the version, and the commit and the platform that the build was made of and for."""
    built = {"commit": None, "platform": None}
    with suppress(FileNotFoundError):  # as in a checkout
        built |= json.loads(Path(siltstone.__file__).with_name("built.json").read_text("utf-8"))
    if options.json:
        sys.stdout.write(json.dumps({"version": VERSION, **built}) + "\n")
        return 0
    known = [f"{name} {value}" for name, value in built.items() if value is not None]
    sys.stdout.write(f"siltstone {VERSION}" + (f" ({', '.join(known)})" if known else "") + "\n")
    return 0


class _Formatter(argparse.HelpFormatter):
    """Help whose examples stay lines of their own, so that they can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser that finds the width for its help by itself.

    Otherwise argparse imports `shutil` at every start and not only for help. `shutil` imports every
    archive format: half a MiB, and a hundredth of a start.
    """

    def __init__(self, **options: Any) -> None:
        formatter = partial(_Formatter, width=find_width())
        super().__init__(formatter_class=formatter, **options)


@cache
def find_width() -> int:
    """Return how many columns the help has, as argparse would compute it with `shutil`."""
    width = (terminal.find_width() or 0) - 2
    return width if width > 0 else _WIDTH
