"""Help is as wide as argparse would make it by asking `shutil`."""

import os
import shutil

import pytest

from siltstone.broker.commands import parser


@pytest.mark.parametrize("columns", ["60", "0", "-3", "wide", ""])
@pytest.mark.parametrize("terminal", [0, 200, None])
def test_width_is_that_of_shutil(
    monkeypatch: pytest.MonkeyPatch, columns: str, terminal: int | None
) -> None:
    """The environment goes first, then the terminal; without either it is 80."""

    def get_terminal_size(_descriptor: int) -> os.terminal_size:
        if terminal is None:
            raise OSError
        return os.terminal_size((terminal, 24))

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(os, "get_terminal_size", get_terminal_size)

    found = parser.find_width.__wrapped__()

    assert found == shutil.get_terminal_size().columns - 2
