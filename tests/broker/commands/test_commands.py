"""The command line: what it refuses, in which words, and with which exit code."""

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.commands.http_client import ask
from siltstone.broker.http.control.token import note_address
from siltstone.cleaner.history.history import FILE_NAME
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME as CATALOG
from siltstone.storage.directory.catalog import Catalog, CatalogState
from tests.support.broker import SiltstoneProcess
from tests.support.holding import held_by_another

NOBODY = ("--set", "http.listener=127.0.0.1:1")


def test_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty SILTSTONE_CONFIG stands for no file, and not for the working folder."""
    monkeypatch.setenv("SILTSTONE_CONFIG", "")

    assert main(["check"]) == 0


def test_the_first_file_that_is_there_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the image reads what is mounted where Apache Kafka's image looks, else its own."""
    mounted, own = tmp_path / "server.properties", tmp_path / "server.yaml"
    monkeypatch.setenv("SILTSTONE_CONFIG", f"{mounted}:{own}")
    own.write_text("num.partitions: 2\n")

    def partitions() -> str:
        assert main(["config", "--offline", *NOBODY]) == 0
        return next(
            line for line in capsys.readouterr().out.splitlines() if line.startswith("num.part")
        )

    assert partitions() == f"num.partitions = 2  ({own} line 1)"
    mounted.write_text("num.partitions=3\n")
    assert partitions() == f"num.partitions = 3  ({mounted} line 1)"


@pytest.mark.parametrize(
    ("environ", "options", "expected"),
    [
        ({}, [], ("console", "info")),
        ({"SILTSTONE_LOG_FORMAT": "", "SILTSTONE_LOG_LEVEL": ""}, [], ("console", "info")),
        (
            {"SILTSTONE_LOG_FORMAT": "json", "SILTSTONE_LOG_LEVEL": "WARNING"},
            [],
            ("json", "warning"),
        ),
        ({"SILTSTONE_LOG_LEVEL": "debug"}, ["--log-level", "error"], ("console", "error")),
    ],
)
def test_the_log_looks_as_the_environment_says(
    environ: dict[str, str],
    options: list[str],
    expected: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SILTSTONE_LOG_FORMAT and SILTSTONE_LOG_LEVEL count where no option does."""
    seen = []
    monkeypatch.setattr(
        "siltstone.broker.process.logs.configure", lambda *given: seen.append(given)
    )
    monkeypatch.setattr("siltstone.broker.run.run", lambda *_: 0)
    monkeypatch.delenv("SILTSTONE_LOG_FORMAT", raising=False)
    monkeypatch.delenv("SILTSTONE_LOG_LEVEL", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert main(["serve", *options]) == 0
    assert seen == [expected]


@pytest.mark.parametrize(("command", "code"), [("serve", 2), ("check", 1)])
def test_a_level_that_is_none_is_a_fault(
    command: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named beside the other faults."""
    monkeypatch.setenv("SILTSTONE_LOG_LEVEL", "loud")
    monkeypatch.setenv("SILTSTONE_LOG_FORMAT", "xml")

    assert main([command, "--set", "num.partitions=0"]) == code
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "SILTSTONE_LOG_FORMAT is xml; it must be one of console, json",
        "SILTSTONE_LOG_LEVEL is loud; it must be one of debug, info, warning, error",
        "--set: num.partitions is 0; it must be at least 1",
    ]


def test_dynamic_values_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A change by kafka-configs counts before the file, without a broker too."""
    catalog = Catalog([tmp_path])
    catalog.write(
        CatalogState(
            cluster_configs={"log.retention.ms": "5000", "max.connections": "none"},
            broker_configs={"log.segment.bytes": "4000000"},
        )
    )
    given = ["--set", f"log.dirs={tmp_path}", "--set", "log.segment.bytes=2000000"]

    assert main(["config", "--offline", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "log.segment.bytes = 4000000  (dynamic for this broker)" in lines
    assert "log.retention.ms = 5000  (dynamic for all brokers)" in lines
    assert "max.connections = 2147483647  (default)" in lines
    assert "stored setting is left out: dynamic for all brokers: max.connections" in caplog.text


def test_values_that_cannot_be_read_are_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All others are shown, and the exit code says that something is missing."""
    (tmp_path / CATALOG).write_text("no catalogue")

    assert main(["config", "--offline", "--set", f"log.dirs={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert "num.partitions = 1  (default)" in out
    assert "what was changed while the broker ran is not shown" in err
    assert str(tmp_path / CATALOG) in err


@pytest.mark.parametrize("text", ["-1", "0", "nan", "inf", "soon"])
def test_time_to_wait_is_a_positive_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else is wrong usage."""
    with pytest.raises(SystemExit) as stop:
        main(["health", "--timeout", text])

    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --timeout: {text} is not a number of seconds above 0" in said


@pytest.mark.parametrize("command", ["explain", "history", "verify"])
def test_folder_that_cannot_be_read_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped log.dirs must not look like one in which all is well."""
    missing, file, long = tmp_path / "missing", tmp_path / "file", tmp_path / ("x" * 300)
    file.touch()

    for path, sentence in (
        (missing, "does not exist; choose another log.dirs"),
        (file, "is not a folder; choose another log.dirs"),
        (long, "cannot be read (File name too long)"),
    ):
        assert main([command, *NOBODY, "--set", f"log.dirs={path}"]) == 1
        assert f"log directory {path} {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("explain", files.CLEANER_OFFSETS),
        ("explain", FILE_NAME),
        ("history", FILE_NAME),
        ("verify", files.CLEANER_OFFSETS),
        ("verify", FILE_NAME),
        ("serve", files.CLEANER_OFFSETS),
    ],
)
def test_file_that_cannot_be_read_is_named(command: str, name: str, tmp_path: Path) -> None:
    """In a sentence; a folder in its place fails for every user."""
    (tmp_path / name).mkdir()
    broker = SiltstoneProcess(tmp_path)
    broker.folder = tmp_path
    broker.http = "127.0.0.1:0" if command == "serve" else "127.0.0.1:1"

    done = broker.run(command)

    said = done.stderr
    assert done.returncode == 1
    assert f"Is a directory: '{tmp_path / name}'" in said
    assert "Traceback" not in said


def test_missing_folder_among_others_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next start makes it; until then the others have all there is."""
    assert main(["explain", *NOBODY, "--set", f"log.dirs={tmp_path},{tmp_path / 'new'}"]) == 0

    assert capsys.readouterr().out == "there are no partitions\n"


@pytest.mark.parametrize("command", ["clean", "pins", "health"])
def test_nobody_there(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody answers, and what to do about it."""
    which = ["orders"] if command == "clean" else []

    code = main([command, *which, *NOBODY, "--set", f"log.dirs={tmp_path}"])

    assert code == 1
    assert (
        "no broker answers on http.listener 127.0.0.1:1; start it, or name the http.listener of"
        in capsys.readouterr().err
    )


def test_a_broker_that_does_not_answer_may_have_done_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request was sent, and the connection ends without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            accepted, _ = listening.accept()
            assert accepted.recv(1 << 16).startswith(b"POST")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

        server = threading.Thread(target=take)
        server.start()
        address = f"http.listener=127.0.0.1:{listening.getsockname()[1]}"
        code = main(["reload", "--set", address, "--set", f"log.dirs={tmp_path}"])
        server.join()

    assert code == 1
    told = capsys.readouterr().err
    assert "nothing is changed" not in told
    assert "ended the connection: " in told
    assert "it may still do what was asked for" in told


def test_an_answer_about_very_many_partitions() -> None:
    """Those of 200,000 partitions take a hundred megabytes."""
    facts = b"x" * (20 << 20)

    def tell() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n" + facts)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=tell)
        server.start()
        answer = ask(listening.getsockname(), "GET", "/v1/explain")
        server.join()

    assert answer.body == facts


@contextmanager
def hang_up(handler: signal.Handlers) -> Iterator[None]:
    """Have what is started do so with SIGHUP, whatever the tests were started with."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.timeout(120)
def test_broker_that_has_the_folder_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked at the wrong port, commands tell the right one."""
    broker = SiltstoneProcess(tmp_path).start()
    settings = [*NOBODY, "--set", f"log.dirs={broker.folder}"]
    try:
        assert main(["clean", "orders", *settings]) == 1
        assert f"has {broker.folder} open listens on {broker.http}" in capsys.readouterr().err
        assert main(["verify", *settings]) == 1
        assert f"the broker runs and changes {broker.folder}" in capsys.readouterr().err
        assert broker.stop() == 0
    finally:
        broker.close()
    assert (broker.folder / files.CLEAN_SHUTDOWN).exists()
    assert main(["verify", *settings]) == 0


@pytest.mark.parametrize(
    "words",
    [["topics"], ["groups"], ["health"], ["explain"], ["pins"], ["doctor"], ["backup", "copy"]],
    ids=lambda words: words[0],
)
def test_a_broker_that_does_not_listen_any_more(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it flushes its logs, commands say that it starts or stops, not that none runs."""
    note_address(tmp_path, "127.0.0.1", 1)
    settings = [*NOBODY, "--set", f"log.dirs={tmp_path}", "--set", "listeners=PLAINTEXT://:2"]

    with held_by_another(tmp_path):
        code = main([*words, *settings])

    out = capsys.readouterr()
    assert f"the broker that has {tmp_path} open starts or stops" in out.err + out.out
    assert "no broker answers" not in out.err + out.out
    assert code == (0 if words == ["explain"] else 1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_hang_up_reloads(handler: signal.Handlers, tmp_path: Path) -> None:
    """Also of a broker that was started under nohup: it takes what changed, and goes on."""
    file = tmp_path / "server.yaml"
    file.write_text("max.connections: 70\nnum.io.threads: 4\n")
    broker = SiltstoneProcess(tmp_path, environ={"SILTSTONE_CONFIG": str(file)})
    with hang_up(handler):
        broker.start()
    try:
        file.write_text("max.connections: 80\nnum.io.threads: 5\n")
        broker.daemon.signal(signal.SIGHUP)
        broker.daemon.wait_for(
            rf"setting changed name=max.connections old=70 new=80 source='{file} line 1'"
        )
        broker.daemon.wait_for(
            rf"changes at the next start name=num.io.threads now=4 then=5 source='{file} line 2'"
        )
        broker.daemon.wait_for("settings reloaded changed=1 restart=1")

        file.write_text("max.connections: many\n")
        broker.daemon.signal(signal.SIGHUP)
        broker.daemon.wait_for(
            rf"nothing has changed: {file} line 1: max.connections is many; it must be"
        )

        assert broker.stop() == 0
    finally:
        broker.close()


@pytest.mark.timeout(120)
def test_hang_up_during_a_start_does_not_end_it(tmp_path: Path) -> None:
    """The signal comes while the settings are read, and waits until they can be read again."""
    file = tmp_path / "server.yaml"
    os.mkfifo(file)
    broker = SiltstoneProcess(tmp_path, environ={"SILTSTONE_CONFIG": str(file)})
    with hang_up(signal.SIG_DFL):
        broker.daemon.launch(broker.command("serve"), environ={**os.environ, **broker.environ})
    try:
        with file.open("w") as read_by_the_start:
            broker.daemon.signal(signal.SIGHUP)
            file.unlink()
            file.write_text("max.connections: 80\n")
            read_by_the_start.write("max.connections: 70\n")
        broker.daemon.wait_for("setting changed name=max.connections old=70 new=80")
    finally:
        broker.close()


@pytest.mark.timeout(120)
def test_diff_tells_what_reload_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker is asked, and reads its own file, not the one of the command."""
    file = tmp_path / "server.yaml"
    file.write_text("max.connections: 70\n")
    broker = SiltstoneProcess(tmp_path, environ={"SILTSTONE_CONFIG": str(file)}).start()
    asked = ["--set", f"log.dirs={broker.folder}", "--set", f"http.listener={broker.http}"]
    try:
        assert main(["diff", *asked]) == 0
        assert capsys.readouterr().out == (
            "the broker runs with what its file, environment and options say\n"
        )
        file.write_text("max.connections: 80\nlog.retention.hours: 1\nnum.io.threads: 5\n")
        assert main(["diff", *asked]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "a reload changes now:",
            f"  log.retention.hours: 168 -> 1  ({file} line 2)",
            f"  max.connections: 70 -> 80  ({file} line 1)",
            "a restart changes:",
            f"  num.io.threads: 8 -> 5  ({file} line 3)",
        ]
        assert main(["reload", "--json", *asked]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [each["name"] for each in told["now"]] == ["log.retention.hours", "max.connections"]
        assert main(["reload", *asked]) == 0
        assert capsys.readouterr().out.splitlines()[0] == "nothing changed now"

        file.write_text("max.connections: -1\nmax.conections: 2\n")
        for command in ("diff", "reload"):
            assert main([command, *asked]) == 1
            said = capsys.readouterr().err
            assert f"nothing is changed: {file} line 1: max.connections is -1" in said
            assert "line 2: max.conections is not a setting; did you mean max.connections?" in said

        other = tmp_path / "other"
        assert main(["diff", "--set", f"log.dirs={other}", *asked[2:]]) == 1
        assert capsys.readouterr().err == (
            f"siltstone: nothing is changed: the broker that answers wants its token, and {other} "
            "has none; name its first log directory by --set log.dirs=…\n"
        )
    finally:
        broker.close()


def test_nobody_can_be_told_to_reload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a broker there is nothing to reload."""
    for command in ("reload", "diff"):
        assert main([command, *NOBODY, "--set", f"log.dirs={tmp_path}"]) == 1
        assert "no broker" in capsys.readouterr().err
