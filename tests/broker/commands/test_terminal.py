"""Tables for a person, as wide as the terminal."""

import pytest

from siltstone.broker.commands.terminal import fail, write_lines, write_table, write_wrapped

LONG = "a-name-" + "x" * 90
HEADINGS = ("TOPIC", "PARTITIONS", "SIZE")


def table(capsys: pytest.CaptureFixture[str], *rows: tuple[object, ...]) -> list[str]:
    """Return the lines of a table."""
    write_table(HEADINGS, rows)
    return capsys.readouterr().out.splitlines()


def test_a_long_name_does_not_make_every_line_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays whole, to be copied; what is beside it stands below, in its columns."""
    monkeypatch.setenv("COLUMNS", "60")

    lines = table(capsys, ("orders", 3, "1.5 KiB"), (LONG, 12, "0 B"))

    assert lines[2] == LONG
    assert max(len(each) for each in lines if each != LONG) == 60
    end = lines[0].index("PARTITIONS") + len("PARTITIONS")
    assert lines[1][:end].endswith(" 3")
    assert lines[3][:end].endswith(" 12")


def test_a_pipe_gets_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that reads them wants a row a line."""
    monkeypatch.delenv("COLUMNS", raising=False)

    lines = table(capsys, ("orders", 3, "1.5 KiB"), (LONG, 12, "0 B"))

    assert [len(each.split("  ")[0]) for each in lines[2:]] == [len(LONG)]
    assert len(lines) == 3


def test_a_name_does_nothing_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups and clients choose theirs, with line breaks and escape sequences if they like."""
    monkeypatch.delenv("COLUMNS", raising=False)

    lines = table(capsys, ("bills\nnone", 1, "-"), ("\x1b[2J\u202e", 2, "-"), ("für 日本", 3, "-"))

    assert [each.split("  ")[0] for each in lines[1:]] == [
        r"bills\nnone",
        r"\x1b[2J\u202e",
        "für 日本",
    ]


def test_only_numbers_stand_to_the_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may begin with a digit."""
    monkeypatch.delenv("COLUMNS", raising=False)

    lines = table(capsys, ("2024-orders", 3, "-"), ("7", 12, "9 B"))

    assert lines == [
        "TOPIC        PARTITIONS  SIZE",
        "2024-orders           3     -",
        "7                    12   9 B",
    ]


def test_a_line_stays_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason or a holder may quote a stranger, on stdout and on stderr."""
    write_lines(["held for \x1b[2Jme\nnext"])
    write_wrapped(["failed: \x1b[2Jit\rwent"])
    fail("topic a\x07 is unknown")

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [r"held for \x1b[2Jme\nnext", r"failed: \x1b[2Jit\rwent"]
    assert printed.err == "siltstone: topic a\\x07 is unknown\n"
