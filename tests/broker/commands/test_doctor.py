"""The findings of `siltstone doctor`: folders, ports, and addresses that fail clients."""

import asyncio
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.commands.doctor import why_not_written
from siltstone.broker.commands.terminal import paint
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME
from siltstone.storage.directory.meta_properties import MetaProperties
from tests.support.holding import held_by_another
from tests.support.running import running

NOWHERE = "kafka.invalid"  # RFC 6761: such a name never resolves


def consult(
    capsys: pytest.CaptureFixture[str], folder: Path, *sets: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code and the findings by what they are about."""
    given = [
        f"log.dirs={folder}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "http.listener=127.0.0.1:0",
        *sets,
    ]
    code = main(["doctor", "--json", *(word for each in given for word in ("--set", each))])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return code, {each["subject"]: each for each in findings}


def test_before_a_start_all_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder does not exist yet, the ports are free, and nobody listens: no faults."""
    code, found = consult(capsys, tmp_path / "data")

    assert code == 0
    assert "is made by the start" in found[f"log directory {tmp_path / 'data'}"]["sentence"]
    assert "does not run" in found["broker"]["sentence"]
    assert "advertised PLAINTEXT 127.0.0.1:0" in found
    assert not (tmp_path / "data").exists()


def test_folders_that_a_start_would_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole path is a typing error, and a file is no folder: as the start says."""
    (tmp_path / "file").touch()

    for name, sentence in (
        ("no/data", f"does not exist, nor does {tmp_path / 'no'}; create that"),
        ("file", f"{tmp_path / 'file'} is not a folder"),
        ("file/data", f"{tmp_path / 'file'} is not a folder"),
    ):
        code, found = consult(capsys, tmp_path / name)
        told = found[f"log directory {tmp_path / name}"]
        assert code == 1
        assert not told["is_fine"]
        assert told["sentence"].startswith(sentence)


def test_files_that_a_start_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Identities of another node or cluster, and a damaged catalogue: in the words of the start."""
    folders = [tmp_path / "one", tmp_path / "two"]
    both = Path(",".join(map(str, folders)))
    for number, folder in enumerate(folders):
        folder.mkdir()
        ids = MetaProperties(cluster_id=f"cluster-{number}", node_id=1, directory_id="")
        ids.write(folder, 0)

    assert consult(capsys, folders[0])[0] == 0
    code, found = consult(capsys, folders[0], "node.id=7")
    assert code == 1
    assert "belongs to node.id=1, not to 7" in found["log directories"]["sentence"]
    assert "different clusters" in consult(capsys, both)[1]["log directories"]["sentence"]
    (folders[0] / FILE_NAME).write_text("{")
    code, found = consult(capsys, folders[0])
    assert code == 1
    assert f"{folders[0] / FILE_NAME} cannot be used" in found["catalogue"]["sentence"]


def test_a_port_in_use_and_a_name_that_does_not_resolve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each says what fails, why, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, found = consult(
            capsys,
            tmp_path,
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"advertised.listeners=PLAINTEXT://{NOWHERE}:9092",
        )

    assert code == 1
    assert f"cannot use 127.0.0.1:{port}: Address" in found["listener PLAINTEXT"]["sentence"]
    failing = found[f"advertised PLAINTEXT {NOWHERE}:9092"]
    assert not failing["is_fine"]
    assert "clients that do not find it by name either fail" in failing["sentence"]


def test_a_port_that_two_want(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be bound, and both cannot."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, found = consult(
        capsys,
        tmp_path,
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        f"http.listener=127.0.0.1:{port}",
    )

    assert code == 1
    assert found["http.listener"]["sentence"] == (
        f"127.0.0.1:{port} is that of listener PLAINTEXT, too; choose another"
    )


def test_a_listener_and_an_address_of_different_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mapped port or a proxy makes both right, so they are hints and no faults."""
    code, found = consult(
        capsys,
        tmp_path,
        "listeners=PLAINTEXT://0.0.0.0:0,LAN://127.0.0.1:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT",
        "advertised.listeners=PLAINTEXT://localhost:9092,LAN://10.1.2.3:9093",
    )

    assert code == 0
    assert found["advertised PLAINTEXT localhost:9092"]["sentence"] == (
        "for clients on this machine; those of other machines come in and fail then, unless a "
        "mapped port leads here"
    )
    assert found["advertised LAN 10.1.2.3:9093"]["sentence"] == (
        "for clients of the same private network; but the listener is on 127.0.0.1 alone, so only "
        "a proxy brings them here"
    )


def test_a_folder_of_another_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence is the command that helps. The kernel's word stands in, for root may do all."""
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **how: path != tmp_path and real(path, mode, **how)
    )

    code, found = consult(capsys, tmp_path)

    assert code == 1
    assert f"chown {os.geteuid()}" in found[f"log directory {tmp_path}"]["sentence"]


def test_a_folder_of_a_daemon_is_not_taken_from_it(tmp_path: Path) -> None:
    """Its user may have stopped it for a while; only root's folders are given away."""
    told = why_not_written(tmp_path, owner=999, user=1000)

    assert told == (
        f"user 1000 may not write {tmp_path}; run this, and the broker, as user 999, whose it is, "
        "or choose another log.dirs"
    )


def test_a_disk_without_its_reserve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Produce requests would be refused from the start on."""
    monkeypatch.setattr(files, "find_room", lambda _: (10, 1000))

    code, found = consult(capsys, tmp_path, "log.dirs.reserve.bytes=100")

    assert code == 1
    sentence = found[f"log directory {tmp_path}"]["sentence"]
    assert "10 B of 1000 B are free, less than log.dirs.reserve.bytes=100" in sentence


async def test_a_running_broker_is_asked_what_it_advertises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ports are those that it has bound, and each address is connected to."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        nobody = deaf.getsockname()[1]
    async with running(
        tmp_path,
        "listeners=PLAINTEXT://127.0.0.1:0,LAN://127.0.0.1:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT",
        f"advertised.listeners=LAN://127.0.0.1:{nobody}",
    ) as broker:
        port = broker.listeners[0].port
        http = (tmp_path / files.CONTROL_ADDRESS).read_text().strip()
        code, found = await asyncio.to_thread(consult, capsys, tmp_path, f"http.listener={http}")

    assert code == 1
    assert "runs and is ready" in found["broker"]["sentence"]
    reached = found[f"advertised PLAINTEXT 127.0.0.1:{port}"]
    assert reached["is_fine"]
    assert reached["sentence"] == "for clients on this machine; reached from here"
    failing = found[f"advertised LAN 127.0.0.1:{nobody}"]
    assert "cannot be reached from here (Connection refused)" in failing["sentence"]


def test_a_folder_that_another_broker_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apache Kafka, or a broker that answers elsewhere: a start would be refused."""
    with held_by_another(tmp_path):
        code, found = consult(capsys, tmp_path, "http.listener=127.0.0.1:1")

    assert code == 1
    assert f"another process has {tmp_path} open" in found["broker"]["sentence"]
    assert found["broker"]["sentence"].startswith("does not run: ")


async def test_a_broker_of_another_user_has_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is ready needs no chown, which would take its folder from it."""
    async with running(tmp_path):
        http = (tmp_path / files.CONTROL_ADDRESS).read_text().strip()
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        code, found = await asyncio.to_thread(consult, capsys, tmp_path, f"http.listener={http}")
        monkeypatch.setattr(files, "find_room", lambda _: (_ for _ in ()).throw(PermissionError()))
        _, hidden = await asyncio.to_thread(consult, capsys, tmp_path, f"http.listener={http}")

    subject = f"log directory {tmp_path}"
    assert code == 0
    assert found[subject]["sentence"].startswith("a broker has it open; ")
    assert hidden[subject]["is_fine"]
    assert "may not look at it, and need not" in hidden[subject]["sentence"]


def run_doctor_on(folder: Path) -> None:
    """Print the findings for a person."""
    main(["doctor", "--set", f"log.dirs={folder}", "--set", "http.listener=127.0.0.1:0"])


def test_lines_for_a_person_have_no_colours_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal has them, unless NO_COLOR says otherwise."""
    monkeypatch.delenv("COLUMNS", raising=False)
    run_doctor_on(tmp_path)
    out = capsys.readouterr().out
    assert out.startswith(f"ok    log directory {tmp_path}: ")
    assert "\033" not in out

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("ok", "green") == "\033[32mok\033[0m"
    monkeypatch.setattr(files, "find_room", lambda _: (10, 1000))
    monkeypatch.setenv("COLUMNS", "300")
    run_doctor_on(tmp_path)
    painted = capsys.readouterr().out
    assert painted.startswith(f"\033[32mok   \033[0m log directory {tmp_path}: ")
    monkeypatch.setenv("NO_COLOR", "1")
    run_doctor_on(tmp_path)
    assert capsys.readouterr().out == re.sub("\033\\[[0-9]*m", "", painted)
    assert paint("ok", "green") == "ok"
