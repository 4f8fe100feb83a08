"""How much room a log directory has: levels that do not go back and forth, and a forecast."""

from itertools import pairwise
from pathlib import Path

import pytest

from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.directory.placement import Placement
from siltstone.storage.directory.room import LEAST_SECONDS, SAMPLE_SECONDS, SAMPLES, Level, Room
from siltstone.storage.topic_partition import TopicPartition

RESERVE = 1000


def levels(*free: int, reserve: int = RESERVE) -> list[Level]:
    """Return the level after each of these amounts of free bytes, one after the other."""
    room = Room()
    found = []
    for number, each in enumerate(free):
        room.note(each, 10_000, reserve, float(number), 0)
        found.append(room.level)
    return found


def test_the_warning_comes_at_twice_the_reserve() -> None:
    """Then the refusal below the reserve itself."""
    assert levels(2000, 1999, 1000, 999, 0) == [0, 1, 1, 2, 2]


def test_a_level_is_left_a_little_above_where_it_begins() -> None:
    """A disk at the edge does not go back and forth."""
    assert levels(999, 1000, 1049, 1050, 2000, 2099, 2100) == [2, 2, 2, 1, 1, 1, 0]


def test_without_a_reserve_nothing_is_short() -> None:
    """The disk may fill to its last byte, as it does in Kafka."""
    assert levels(1, 0, reserve=0) == [0, 0]


def test_the_forecast_is_that_of_the_last_minutes() -> None:
    """The bytes that went since the oldest sample, over the time; not before some minutes."""
    room = Room()
    for now in (0.0, LEAST_SECONDS / 2, LEAST_SECONDS - 1):
        room.note(3000 - int(now), 10_000, RESERVE, now, written=int(now))
        assert room.seconds_left is None
    room.note(2000, 10_000, RESERVE, LEAST_SECONDS, written=1000)

    assert room.seconds_left == pytest.approx(LEAST_SECONDS)


@pytest.mark.parametrize(("written", "is_told"), [(0, False), (99, False), (100, True)])
def test_what_others_write_is_not_forecast(written: int, *, is_told: bool) -> None:
    """A build or a download beside the broker ends; at least a tenth of what goes must be ours."""
    room = Room()
    room.note(3000, 10_000, RESERVE, 0.0, written=50)
    room.note(2000, 10_000, RESERVE, LEAST_SECONDS, written=50 + written)

    assert (room.seconds_left is not None) == is_told


def test_room_that_grows_is_not_forecast() -> None:
    """Nor room that stays as it is."""
    room = Room()
    for now, free in ((0.0, 2000), (LEAST_SECONDS, 2000), (2 * LEAST_SECONDS, 3000)):
        room.note(free, 10_000, RESERVE, now, written=int(now))

        assert room.seconds_left is None


def test_old_samples_are_forgotten() -> None:
    """Bytes that went an hour ago say nothing."""
    room = Room()
    times = [number * SAMPLE_SECONDS for number in range(2 * SAMPLES)]
    for before, now in pairwise(times):
        room.note(9000 if before == 0 else 5000, 10_000, RESERVE, now, written=int(now))

    assert room.seconds_left is None


def fill_to(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Have the disk say that so many bytes are free."""
    monkeypatch.setattr(files, "find_room", lambda _: (free, 10_000))


def test_each_change_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning, a refusal, and that it is over; however often it is looked at."""
    caplog.set_level("INFO")
    directory = LogDirectory(tmp_path)
    for free in (5000, 1500, 500, 1500, 5000):
        fill_to(monkeypatch, free)
        for _ in range(3):
            directory.check(RESERVE)

    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "INFO", "INFO"]
    nearly, short, again, plenty = caplog.messages
    assert "is nearly full" in nearly
    assert "takes no produce requests: delete topics or records, shorten retention" in short
    assert "free_bytes=500 reserve_bytes=1000" in short
    assert "takes produce requests again" in again
    assert "has room again" in plenty


def test_only_clients_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's own writes are not, and the sentence says what to do."""
    directory = LogDirectory(tmp_path)
    fill_to(monkeypatch, 500)
    directory.check(RESERVE)

    assert directory.refusal is None
    assert directory.client_refusal is not None
    assert directory.trouble == (
        "takes no produce requests now (500 bytes are free, and log.dirs.reserve.bytes is 1000): "
        "delete topics or records, shorten retention, or make room on the disk"
    )
    fill_to(monkeypatch, 1500)
    directory.check(RESERVE)
    assert directory.trouble is None
    assert directory.client_refusal is None
    assert directory.warning is not None
    assert "is nearly full (1500 bytes are free" in directory.warning


def test_a_full_disk_stays_refused_when_the_reserve_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal of all writes wins over that of clients."""
    directory = LogDirectory(tmp_path)
    directory.fail(OSError(28, "No space left on device"))
    assert directory.client_refusal == directory.refusal

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    fill_to(monkeypatch, 5000)
    monkeypatch.setattr(files, "try_room", refuse)
    directory.check(RESERVE)
    assert directory.client_refusal == directory.refusal
    assert directory.refusal is not None
    monkeypatch.undo()
    directory.check(0)
    assert directory.client_refusal is None


def test_new_partitions_go_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no directory has its reserve, they go where the fewest are all the same."""
    short, roomy = LogDirectory(tmp_path / "short"), LogDirectory(tmp_path / "roomy")
    for each in (short, roomy):
        each.path.mkdir()
    fill_to(monkeypatch, 500)
    short.check(RESERVE)
    placement = Placement()
    placement.prefer(TopicPartition("orders", 0), short)

    chosen = [placement.choose(TopicPartition("orders", each), [short, roomy]) for each in (0, 1)]

    assert chosen == [roomy, roomy]
    roomy.check(RESERVE)
    assert placement.choose(TopicPartition("orders", 2), [short, roomy]) is short
    with pytest.raises(KafkaStorageError):
        placement.choose(TopicPartition("orders", 3), [failed(tmp_path)])


def failed(path: Path) -> LogDirectory:
    """Return a directory that takes no writes."""
    directory = LogDirectory(path)
    directory.fail(OSError(28, "No space left on device"))
    return directory
