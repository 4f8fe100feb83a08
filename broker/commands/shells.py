"""Completion for bash, zsh and fish, written from the parser of the command line itself."""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from siltstone.broker.commands.parser import make_parser

SHELLS = ("bash", "zsh", "fish")


class Option(NamedTuple):
    """An argument of a command: an option with names, or a positional word without names."""

    names: tuple[str, ...]
    words: str
    choices: tuple[str, ...]
    takes_value: bool
    takes_file: bool
    value: str
    repeats: bool
    is_optional: bool


class Command(NamedTuple):
    """A command, its help text, and its arguments."""

    name: str
    words: str
    options: tuple[Option, ...]


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """Return every command in the order of the help."""
    actions = parser._actions  # noqa: SLF001  # argparse has no other way to ask
    group: Any = next(each for each in actions if isinstance(each.choices, dict))
    words = {each.dest: each.help or "" for each in group._choices_actions}  # noqa: SLF001
    return [
        Command(name, words[name], tuple(_options(each))) for name, each in group.choices.items()
    ]


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for each in parser._actions:  # noqa: SLF001  # argparse has no other way to ask
        if each.help is argparse.SUPPRESS:
            continue
        formatter = parser._get_formatter()  # noqa: SLF001
        text = formatter._expand_help(each) if each.help else ""  # noqa: SLF001
        metavar = each.metavar if isinstance(each.metavar, str) else each.dest.upper()
        yield Option(
            names=tuple(each.option_strings),
            words=" ".join(text.split()),
            choices=tuple(map(str, each.choices or ())),
            takes_value=each.nargs != 0,
            takes_file=each.type is Path,
            value=metavar,
            repeats=isinstance(each, argparse._AppendAction)  # noqa: SLF001
            or each.nargs in {"*", "+"},
            is_optional=bool(each.option_strings) or each.nargs in {"?", "*"},
        )


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the option for the shell."""
    parser.add_argument("shell", choices=SHELLS)


def run_completion(options: argparse.Namespace) -> int:
    """Print the script."""
    script = completion(make_parser(), options.shell)
    if options.json:
        script = json.dumps({"shell": options.shell, "script": script}) + "\n"
    sys.stdout.write(script)
    return 0


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell."""
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join([*write(commands_of(parser)), ""])


def _bash(commands: list[Command]) -> Iterator[str]:
    names = " ".join([*(each.name for each in commands), "--help", "--version"])
    yield "# bash completion for siltstone: source <(siltstone completion bash)"
    yield "_siltstone() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}"
    yield "  local command= word words="
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield "    [[ $word == -* ]] || { command=$word; break; }"
    yield "  done"
    yield '  case "$command $prev" in'
    for command in commands:
        for option in command.options:
            if not option.names or not option.takes_value:
                continue
            pattern = "|".join(f'"{command.name} {name}"' for name in option.names)
            if option.choices:
                words = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur"))'
            elif option.takes_file:
                words = 'COMPREPLY=($(compgen -f -- "$cur"))'
            else:
                words = "COMPREPLY=()"
            yield f"    {pattern}) {words}; return ;;"
    yield "  esac"
    yield "  case $command in"
    yield f'    "") words="{names}" ;;'
    for command in commands:
        choices = [word for each in command.options if not each.names for word in each.choices]
        known = " ".join([*choices, *(name for each in command.options for name in each.names)])
        yield f'    {command.name}) words="{known}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o default -F _siltstone siltstone"


def _zsh(commands: list[Command]) -> Iterator[str]:
    yield "#compdef siltstone"
    yield "# zsh completion for siltstone: siltstone completion zsh > ~/.zfunc/_siltstone"
    yield "_siltstone() {"
    yield "  local -a commands"
    yield "  commands=("
    for command in commands:
        yield f"    {shlex.quote(f'{command.name}:{command.words}')}"
    yield "  )"
    yield "  _arguments -C '1:command:->command' '*::argument:->argument'"
    yield "  case $state in"
    yield "    command) _describe 'command' commands ;;"
    yield "    argument)"
    yield "      case $words[1] in"
    for command in commands:
        yield f"        {command.name})"
        specs = [spec for each in command.options for spec in _zsh_specs(each)]
        yield f"          _arguments {' '.join(map(shlex.quote, specs))} ;;"
    yield "      esac ;;"
    yield "  esac"
    yield "}"
    # From a folder of fpath the file itself is the function, called for words to complete.
    yield 'if [[ ${funcstack[1]} == _siltstone ]]; then _siltstone "$@"'
    yield "else compdef _siltstone siltstone; fi"


def _zsh_specs(option: Option) -> Iterator[str]:
    value = option.value.replace(":", " ").replace("[", "").replace("]", "")
    how = ""
    if option.choices:
        how = f"({' '.join(option.choices)})"
    elif option.takes_file:
        how = "_files"
    if not option.names:
        yield f"{'*' if option.repeats else ''}:{value}:{how}"
        return
    words = option.words.replace("[", "(").replace("]", ")").replace(":", " -")
    for name in option.names:
        star = "*" if option.repeats else ""
        tail = f":{value}:{how}" if option.takes_value else ""
        yield f"{star}{name}[{words}]{tail}"


def _fish(commands: list[Command]) -> Iterator[str]:
    yield "# fish completion for siltstone: siltstone completion fish | source"
    yield "complete -c siltstone -f"
    yield "complete -c siltstone -n __fish_use_subcommand -l help -s h"
    yield "complete -c siltstone -n __fish_use_subcommand -l version"
    for command in commands:
        yield (
            f"complete -c siltstone -n __fish_use_subcommand -a {command.name} "
            f"-d {_fish_quoted(command.words)}"
        )
    for command in commands:
        seen = f"'__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            yield f"complete -c siltstone -n {seen}{_fish_option(option)}"


def _fish_option(option: Option) -> str:
    text = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    )
    if option.choices:
        text += f" -a {_fish_quoted(' '.join(option.choices))}"
    if option.takes_file:
        text += " -F"
    if option.names and option.takes_value:
        text += " -r" if option.takes_file else " -x"
    return text + (f" -d {_fish_quoted(option.words)}" if option.words else "")


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
