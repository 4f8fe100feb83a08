"""Completion, as the shells themselves complete."""

from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.commands.parser import make_parser
from siltstone.broker.commands.shells import SHELLS, commands_of, completion
from tests.support.programs import run_to_end


def complete(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    script = folder / "siltstone.bash"
    script.write_text(completion(make_parser(), "bash"))
    lines = f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _siltstone'
    done = run_to_end(
        ["bash", "-c", f'{lines}; printf "%s\\n" "${{COMPREPLY[@]}}"', "bash", *words],
        check=True,
        cwd=folder,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("siltstone", "to"), ["topics"]),
        (("siltstone", "topics", "d"), ["describe", "delete"]),
        (("siltstone", "topics", "--u"), ["--unset"]),
        (("siltstone", "produce", "-z", "z"), ["zstd"]),
        (("siltstone", "serve", "--log-level", ""), ["debug", "info", "warning", "error"]),
        (("siltstone", "consume", "--offset", ""), []),
        (("siltstone", "nonsense", ""), []),
    ],
)
def test_bash_offers_what_fits(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    """Commands, their words and options, and the words that an option takes."""
    assert complete(tmp_path, *words) == offered


def test_bash_offers_files_where_a_file_is_wanted(tmp_path: Path) -> None:
    """As `--config` does."""
    (tmp_path / "server.yaml").touch()

    assert complete(tmp_path, "siltstone", "serve", "--config", "ser") == ["server.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Written from the parser, so that none can be forgotten."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out

    for command in commands_of(make_parser()):
        assert command.name in script
        for option in command.options:
            for name in option.names:
                assert (f"-l {name[2:]}" if shell == "fish" and name[1] == "-" else name) in (
                    script if shell != "fish" else script.replace("-s ", "-")
                )


def test_zsh_offers_at_the_first_tab() -> None:
    """A file of fpath is run as the function that it defines: it has to call it, then and there."""
    script = completion(make_parser(), "zsh")

    assert script.splitlines()[-2:] == [
        'if [[ ${funcstack[1]} == _siltstone ]]; then _siltstone "$@"',
        "else compdef _siltstone siltstone; fi",
    ]
