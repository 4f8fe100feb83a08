"""The cleaner's history: bounded, and readable after any crash."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.history import history
from siltstone.cleaner.history.history import FILE_NAME, OLD_FILE_NAME, History, read_history
from tests.support.faults import Disk


def event(number: int, **more: Any) -> dict[str, Any]:
    """Return an event, told from others by its time."""
    head = {"event": "pass", "topic": "t", "partition": 0, "outcome": "cleaned"}
    return {**head, "started_ms": number, **more}


def numbers(directory: Path) -> list[int]:
    """Return the times of the events in a directory."""
    return [each["started_ms"] for each in read_history(directory)]


def test_events_are_lines_in_order(tmp_path: Path) -> None:
    """One JSON object to a line, the oldest first."""
    events = History()
    for number in range(3):
        events.append(tmp_path, event(number))

    assert numbers(tmp_path) == [0, 1, 2]
    assert (tmp_path / FILE_NAME).read_text().count("\n") == 3


def test_full_file_is_put_aside(tmp_path: Path) -> None:
    """There are two files at most, together no more than twice the bound."""
    events = History(max_bytes=1000)
    for number in range(100):
        events.append(tmp_path, event(number))

    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME, OLD_FILE_NAME]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    found = numbers(tmp_path)
    assert found == list(range(found[0], 100))
    assert len(found) > 5


@pytest.mark.parametrize("after", [0, 1])
def test_no_descriptor_for_a_new_file(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture, after: int
) -> None:
    """The descriptor of the full file is closed once: by then the number may be another's."""
    events = History(max_bytes=200)
    events.append(tmp_path, event(0, text="x" * 100))
    disk.fail("create", errno.EMFILE, FILE_NAME, after=after)
    events.append(tmp_path, event(1, text="x" * 100))

    assert "Bad file descriptor" not in caplog.text
    assert len(events.recent()) == 2


def test_line_longer_than_the_bound_is_kept(tmp_path: Path) -> None:
    """A receipt is never cut."""
    events = History(max_bytes=10)
    for number in range(2):
        events.append(tmp_path, event(number, text="x" * 50))

    assert numbers(tmp_path) == [0, 1]


def test_cut_line_is_passed_over(tmp_path: Path) -> None:
    """After a crash the next event begins a line of its own."""
    (tmp_path / FILE_NAME).write_text(json.dumps(event(0)) + '\n{"even')

    History().append(tmp_path, event(2))

    assert numbers(tmp_path) == [0, 2]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff",
        b"[1]",
        b"null",
        b"",
        b'{"event": "pass"}',
        json.dumps(event(0, started_ms="soon")).encode(),
        json.dumps(event(0, partition=None)).encode(),
    ],
)
def test_what_is_no_event_is_passed_over(tmp_path: Path, line: bytes) -> None:
    """A file that somebody has edited stops nobody, neither a command nor the start."""
    (tmp_path / FILE_NAME).write_bytes(line + b"\n" + json.dumps(event(3)).encode() + b"\n")

    events = History()
    events.load([tmp_path])

    assert numbers(tmp_path) == [each["started_ms"] for each in events.recent()] == [3]


def test_file_that_cannot_be_read_stops_no_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said; a folder in its place fails for every user."""
    (tmp_path / FILE_NAME).mkdir()

    events = History()
    events.load([tmp_path])

    assert events.recent() == []
    assert "cleaner history cannot be read" in caplog.text


def test_start_reads_the_newest_of_all_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they happened, as many as are kept in memory."""
    monkeypatch.setattr(history, "MAX_IN_MEMORY", 3)
    for name, starts in (("a", [1, 4]), ("b", [2, 3])):
        (tmp_path / name).mkdir()
        for started in starts:
            History().append(tmp_path / name, event(started))

    events = History()
    events.load([tmp_path / "a", tmp_path / "b", tmp_path / "missing"])

    assert [each["started_ms"] for each in events.recent()] == [2, 3, 4]


def test_disk_that_takes_no_line_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and the event is known all the same."""
    events = History()
    for number in range(2):
        events.append(tmp_path / "missing", event(number))

    assert [each["started_ms"] for each in events.recent()] == [0, 1]
    assert caplog.text.count("cannot be written") == 1
