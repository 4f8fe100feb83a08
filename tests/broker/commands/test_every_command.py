"""Common parts of every command of `siltstone`."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone import VERSION
from siltstone.broker.__main__ import main
from siltstone.broker.commands.asking import Channel
from siltstone.broker.commands.http_client import ControlAnswer
from siltstone.broker.commands.parser import make_parser, parser_for
from siltstone.storage.dump.any_file import dump_files
from siltstone.storage.dump.log_file import EVERYTHING
from tests.support.broker import SiltstoneProcess
from tests.support.programs import run_to_end


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command, and that of all under no name."""
    parser = make_parser()
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return {"": parser, **commands.choices}


@pytest.mark.parametrize("name", parsers())
def test_version_help_and_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each example of a help is one that the command line takes."""
    words = [name] if name else []
    with pytest.raises(SystemExit) as stop:
        main([*words, "--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"siltstone {VERSION}\n"

    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    examples = [shlex.split(line) for line in lines[lines.index("examples:") + 1 :]]
    assert examples
    for program, *arguments in examples:
        assert program == "siltstone"
        if arguments[0] != "COMMAND":
            make_parser().parse_args(arguments)
            assert name in {"", arguments[0]}


def test_every_command_speaks_json() -> None:
    """Without exception, so that nobody has to look it up."""
    found = parsers()
    del found[""]

    assert [name for name, each in found.items() if "--json" not in each.format_help()] == []


def test_only_the_parser_that_is_asked_for_is_made() -> None:
    """A start need not make those of all other commands."""
    parser = parser_for(["serve", "--json"])
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))

    assert list(commands.choices) == ["serve"]


def test_a_command_that_is_unknown_is_told_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Usage, and the words that would do."""
    with pytest.raises(SystemExit) as stop:
        main(["sevre"])

    assert stop.value.code == 2
    _, _, told = capsys.readouterr().err.partition("choose from")
    words = set(re.findall(r"[\w-]+", told))  # some Pythons put them in quotes
    assert {name for name in parsers() if name} <= words


@pytest.mark.parametrize("name", ["explain", "clean", "history"])
def test_a_partition_that_is_not_utf_8(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and no request is made."""
    assert main([name, "\udcff"]) == 1

    assert "'\\udcff' is not UTF-8" in capsys.readouterr().err


def test_the_package_is_the_command(tmp_path: Path) -> None:
    """`python -m siltstone`, where nothing is on the PATH."""
    done = run_to_end([sys.executable, "-m", "siltstone", "version", "--json"], check=True)

    assert json.loads(done.stdout) == {"version": VERSION, "commit": None, "platform": None}
    assert not list(tmp_path.iterdir())


def test_faults_of_the_settings_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Faults and warnings by themselves; the exit code says the same."""
    assert main(["check", "--json", "--set", "num.partitions=0"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told == {"faults": ["--set: num.partitions is 0; it must be at least 1"], "warnings": []}

    assert main(["check", "--json", "--set", "background.threads=5"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["faults"] == []
    assert "background.threads is a setting of Apache Kafka" in told["warnings"][0]


def test_settings_as_json_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its source; what may be a secret has no value."""
    given = ["--set", f"log.dirs={tmp_path}", "--set", "config.providers.a.b=hush"]

    assert main(["config", "--offline", "--json", *given]) == 0

    text = capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(text)}
    assert rows["log.dirs"]["value"] == str(tmp_path)
    assert rows["log.dirs"]["source"] == "--set"
    assert rows["max.connections"]["dynamic"]
    assert rows["config.providers.a.b"]["hidden"]
    assert "hush" not in text


def test_a_pin_that_ends_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As everything is that a command prints."""
    monkeypatch.setattr(Channel, "post", lambda *_, **__: ControlAnswer(200, b""))

    assert main(["pins", "--release", "0f3c", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == {"released": "0f3c"}


@pytest.mark.parametrize("words", [["version"], ["config", "--offline"]])
def test_a_reader_that_is_gone(words: list[str]) -> None:
    """As `head` is after its lines: no trace of ours in its way, and exit code 1."""
    ours, theirs = os.pipe()
    os.close(ours)

    done = subprocess.run(
        [sys.executable, "-m", "siltstone", *words],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(theirs)

    assert (done.returncode, done.stderr) == (1, "")


def test_a_dump_as_json_names_file_and_fault(tmp_path: Path) -> None:
    """An object a line; what is wrong is one too."""
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 3 17\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense\n")
    lines: list[str] = []

    assert dump_files([tmp_path], EVERYTHING, lines.append, as_json=True) == 1

    fault, offsets = map(json.loads, lines)
    assert fault["fault"]
    assert offsets == {
        "file": str(tmp_path / "replication-offset-checkpoint"),
        "topic": "orders",
        "partition": 3,
        "offset": 17,
    }


def test_what_the_output_cannot_encode_is_escaped(tmp_path: Path) -> None:
    """A topic, or a file's name, in letters that a terminal of another country lacks."""
    folder = tmp_path / "größe"
    folder.mkdir()
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\ncafé 3 17\n", "utf-8")
    (folder / "replication-offset-checkpoint").write_text("0\n1\norders 3 18\n")

    done = subprocess.run(
        [sys.executable, "-m", "siltstone", "dump-log", str(folder)],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "topic=caf\\xe9 partition=3 offset=17\n" in done.stdout
    assert done.stdout.endswith("  topic=orders partition=3 offset=18\n")


@pytest.mark.timeout(120)
def test_port_0_is_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With http.listener=…:0 the broker is asked where it noted that it answers."""
    broker = SiltstoneProcess(tmp_path)
    broker.http = "127.0.0.1:0"
    broker.start()
    asked = ["--set", f"log.dirs={broker.folder}", "--set", "http.listener=127.0.0.1:0"]
    try:
        assert main(["health", *asked]) == 0
        assert capsys.readouterr().out == "ready\n"
        assert main(["pins", *asked]) == 0
        assert capsys.readouterr().out == "there are no pins\n"
        assert main(["health", "--json", *asked]) == 0
        assert json.loads(capsys.readouterr().out) == {"ready": True, "message": "ready"}
    finally:
        broker.close()

    assert main(["health", "--json", *asked]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["ready"]
    assert f"no broker has {broker.folder} open" in told["message"]


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">&-", 0, ""),
        ("> /dev/full", 1, "siltstone: its output cannot be written: No space left on device\n"),
    ],
)
def test_an_output_that_takes_nothing(output: str, code: int, said: str) -> None:
    """A sentence says that it is full; a reader that closes it wants to see nothing."""
    done = run_to_end(["sh", "-c", f'"$0" -m siltstone version {output}', sys.executable])

    assert (done.returncode, done.stderr) == (code, said)
