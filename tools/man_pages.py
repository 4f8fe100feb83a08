"""Writes the manual pages in docs/man from the parser of the command line (`make docs`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone import VERSION
from siltstone.broker.commands.parser import make_parser
from siltstone.broker.commands.shells import commands_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from siltstone.broker.commands.shells import Command, Option

FOLDER = Path(__file__).parents[1] / "docs" / "man"


def pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    parser = make_parser()
    commands = commands_of(parser)
    found = {"siltstone.1": "\n".join([*_main_page(parser, commands), ""])}
    for command in commands:
        epilog = _parser_of(parser, command.name).epilog or ""
        found[f"siltstone-{command.name}.1"] = "\n".join([*_page(command, epilog), ""])
    return found


def _parser_of(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    for each in parser._actions:  # noqa: SLF001  # argparse has no other way to ask
        if isinstance(each.choices, dict):
            found: argparse.ArgumentParser = each.choices[name]
            return found
    raise LookupError(name)


def _head(name: str, words: str) -> Iterator[str]:
    yield '.\\" Written by `make docs` from the parser of the command line; do not edit.'
    yield f'.TH "{name.upper()}" "1" "" "siltstone {VERSION}" "Siltstone"'
    yield ".nh"  # so that names of settings can be copied
    yield ".ad l"
    yield ".SH NAME"
    yield f"{_escaped(name)} \\- {_escaped(words)}"


def _main_page(parser: argparse.ArgumentParser, commands: list[Command]) -> Iterator[str]:
    words = (parser.description or "").rstrip(".")
    yield from _head("siltstone", f"{words[:1].lower()}{words[1:]}")
    yield ".SH SYNOPSIS"
    yield ".B siltstone"
    yield "COMMAND [OPTION ...]"
    yield ".SH COMMANDS"
    for command in commands:
        yield ".TP"
        yield f".BR {_escaped('siltstone-' + command.name)} (1)"
        yield _escaped(f"{command.words[0].upper()}{command.words[1:]}.")
    yield from _examples(parser.epilog or "")
    yield ".SH EXIT STATUS"
    yield "0: fine. 1: a fault, each in a sentence on standard error. 2: wrong usage."


def _page(command: Command, epilog: str) -> Iterator[str]:
    yield from _head(f"siltstone-{command.name}", command.words)
    yield ".SH SYNOPSIS"
    yield f".B siltstone {_escaped(command.name)}"
    yield _escaped(" ".join(["[OPTION ...]", *_places(command.options)]))
    yield ".SH OPTIONS"
    for option in command.options:
        yield ".TP"
        yield _title(option)
        yield _escaped(option.words) or "See the examples."
    yield from _examples(epilog)
    yield ".SH SEE ALSO"
    yield ".BR siltstone (1)"


def _places(options: tuple[Option, ...]) -> Iterator[str]:
    for each in options:
        if not each.names:
            value = "|".join(each.choices) or each.value
            value = f"{value} ..." if each.repeats else value
            yield f"[{value}]" if each.is_optional else value


def _title(option: Option) -> str:
    value = f" \\fI{_escaped(option.value)}\\fR" if option.takes_value else ""
    if option.choices:
        value = f" \\fI{_escaped('|'.join(option.choices))}\\fR"
    if not option.names:
        return value.strip()
    return ", ".join(f"\\fB{_escaped(name)}\\fR{value}" for name in option.names)


def _examples(epilog: str) -> Iterator[str]:
    lines = [line.strip() for line in epilog.splitlines()[1:]]
    if lines:
        yield ".SH EXAMPLES"
        yield ".nf"
        yield from map(_escaped, lines)
        yield ".fi"


def _escaped(text: str) -> str:
    """Return text escaped for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def main() -> int:
    """Write the pages, and delete those of commands that no longer exist."""
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for old in FOLDER.glob("*.1"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
