"""Pins: links to the files of one moment, whatever becomes of the log."""

import errno
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.protocol.errors import CorruptMessage, UnknownTopicOrPartition
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.log import pin_links
from siltstone.storage.log.frozen import NameGate
from siltstone.storage.log.log import Log
from siltstone.storage.log.pin_links import PinnedPartition
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.cleaner import CleanerHome, read_all
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    """Logs with a cleaner whose rounds the test runs."""
    home = CleanerHome(tmp_path)
    yield home
    home.close()


def pin(*logs: Log, pin_id: str = "p") -> tuple[PinnedPartition, ...]:
    """Pin logs as the broker does."""
    return pin_links.link(pin_id, [log.freeze() for log in logs])


def records_of(pinned: PinnedPartition) -> list[Record]:
    """Return all records in the files of a pin, as far as they belong to it."""
    found: list[Record] = []
    for segment in pinned.segments:
        path = pinned.folder / files.segment_file_name(segment.base_offset)
        data = memoryview(path.read_bytes())[: segment.size]
        position = 0
        while position < len(data):
            size = BatchHeader.read(data, position).size
            found += iterate_records(data[position : position + size])
            position += size
    return found


def test_pin_is_a_moment(home: CleanerHome) -> None:
    """Later appends do not belong to it, and not one byte is copied."""
    log = home.create()
    home.fill(log, 2)
    append_unchecked(log, [(b"a", b"1")])
    before = read_all(log)

    (pinned,) = pin(log)
    append_unchecked(log, [(b"b", b"2")])

    assert records_of(pinned) == before
    assert pinned.end_offset == 21
    assert [segment.is_active for segment in pinned.segments] == [False, False, True]
    for segment, source in zip(pinned.segments, log.segments, strict=True):
        assert segment.inode == source.log_path.stat().st_ino
        assert segment.files[:3] == (files.LOG, files.INDEX, files.TIME_INDEX)
        assert segment.largest_timestamp == source.max_timestamp


def test_a_pin_has_the_indexes_of_memory(home: CleanerHome) -> None:
    """An active segment's index files lack entries; a pin has them up to its end, as its own."""
    log = home.create(index_interval_bytes=0)
    offsets = [append_unchecked(log, [(b"a", b"1"), (b"b", b"2")]) for _ in range(50)]
    frozen = log.freeze()
    append_unchecked(log, [(b"later", b"3")])
    live = log.segments[0].files.path(files.INDEX)
    assert live.stat().st_size == 0

    (pinned,) = pin_links.link("p", [frozen])

    index, times = (
        (pinned.folder / files.segment_file_name(0, kind)).read_bytes()
        for kind in (files.INDEX, files.TIME_INDEX)
    )
    found = [relative for relative, _ in OFFSET_ENTRY.iter_unpack(index)]
    assert found == [offset + 1 for offset in offsets[1:]]
    assert len(times) == TIME_ENTRY.size
    assert live.stat().st_size == 0
    log.flush()
    assert len(live.read_bytes()) == OFFSET_ENTRY.size * 50
    assert (pinned.folder / live.name).read_bytes() == index


def test_a_pin_links_indexes_that_are_written(home: CleanerHome) -> None:
    """Where the files lack nothing there is nothing to write."""
    log = home.create(index_interval_bytes=0)
    for _ in range(5):
        append_unchecked(log, [(b"a", b"1")])
    log.flush()

    (pinned,) = pin(log)

    for kind in (files.INDEX, files.TIME_INDEX):
        live = log.segments[0].files.path(kind)
        assert (pinned.folder / live.name).samefile(live)


def test_swap_waits_for_the_links(home: CleanerHome) -> None:
    """A pass that ends between freezing and linking takes no file away from under the pin."""
    log = home.create(min_cleanable_dirty_ratio=0.01)
    home.fill(log, 3)
    before = read_all(log)
    frozen = log.freeze()
    cleaner = threading.Thread(target=home.thread.step)
    cleaner.start()
    wait_until(
        lambda: log.has_unfinished_swap and len(log.segments) < len(frozen.segments),
        "an unfinished swap",
    )

    (pinned,) = pin_links.link("p", [frozen])
    cleaner.join(PATIENCE)

    assert not log.has_unfinished_swap
    assert len(read_all(log)) == 10
    assert records_of(pinned) == before


def test_pin_of_a_half_finished_swap(home: CleanerHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleaned segments that have no final names yet have them in the pin."""
    log = home.create(min_cleanable_dirty_ratio=0.01)
    home.fill(log, 3)
    rename = files.rename

    def refuse(old: str, new: str) -> None:
        if old.endswith(files.SWAP):
            raise OSError(errno.EIO, "the disk fails")
        rename(old, new)

    monkeypatch.setattr(files, "rename", refuse)
    home.thread.step()
    assert log.has_unfinished_swap

    (pinned,) = pin(log)

    assert records_of(pinned) == read_all(log)
    assert len(read_all(log)) == 10
    monkeypatch.undo()
    log.finish_swap()
    assert len(records_of(pinned)) == 10


def test_retention_waits_for_the_links(home: CleanerHome) -> None:
    """Segments that retention drops meanwhile are in the pin all the same."""
    log = home.create(cleanup_policy=("delete",), retention_bytes=0, file_delete_delay_ms=0)
    home.fill(log, 3)
    before = read_all(log)
    frozen = log.freeze()
    assert log.apply_retention(home.clock.now_ms())

    (pinned,) = pin_links.link("p", [frozen])
    home.settle()
    home.logs.deletions.run_due()
    home.settle()

    assert not (log.path / files.segment_file_name(0)).exists()
    assert records_of(pinned) == before
    assert pin_links.held_bytes([[pinned]]) == [pinned.size]


def test_what_the_disk_does_not_show_counts_as_held(home: CleanerHome) -> None:
    """Measuring goes on: it is done every second as long as there is a pin."""
    log = home.create()
    home.fill(log, 1)
    (pinned,) = pin_links.link("p", [log.freeze()])
    shutil.rmtree(pinned.folder)
    pinned.folder.write_text("no folder")

    assert pin_links.held_bytes([[pinned]]) == [pinned.size]


def test_deleting_the_topic_waits_for_the_links(home: CleanerHome) -> None:
    """The folder is renamed when its files are linked; the pin outlives the topic."""
    log = home.create()
    home.fill(log, 2)
    before = read_all(log)
    frozen = log.freeze()
    deleting = threading.Thread(target=home.logs.delete, args=(log.topic_partition,))
    deleting.start()
    wait_until(lambda: log.path.name, "a renamed folder", lambda name: name.endswith("-delete"))

    (pinned,) = pin_links.link("p", [frozen])
    deleting.join(PATIENCE)

    assert not frozen.path.exists()
    assert records_of(pinned) == before
    with pytest.raises(UnknownTopicOrPartition):
        log.freeze()


def test_links_wait_for_names_to_be_changed() -> None:
    """A change of names that is under way ends first; none begins before the release."""
    gate = NameGate()
    seen: list[str] = []

    def link() -> None:
        gate.wait_for_changes()
        seen.append("linked")
        gate.release()

    with gate.changing():
        gate.hold()
        thread = threading.Thread(target=link)
        thread.start()
        seen.append("renamed")
    with gate.changing():
        seen.append("renamed again")
    thread.join(PATIENCE)

    assert seen == ["renamed", "linked", "renamed again"]


def test_refused_links_leave_nothing(home: CleanerHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no hard links, nobody waits and no folder stays."""
    logs = [home.create("a"), home.create("b")]

    def refuse(_old: str, _new: str, _source: int, _target: int) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(files, "link", refuse)
    with pytest.raises(OSError, match="no links here"):
        pin(*logs)

    assert not list((home.paths[0] / files.PINS).iterdir())
    for log in logs:
        with log.names.changing():
            pass


def test_links_that_end_in_another_error_leave_nothing(
    home: CleanerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged segment, for example, in the last of several partitions."""
    logs = [home.create("a"), home.create("b")]
    home.fill(logs[1], 2)

    def refuse(_name: str, folder: int) -> tuple[int, int]:
        raise CorruptMessage(f"no batch begins in {folder}")

    monkeypatch.setattr(files, "find_identity", refuse)
    with pytest.raises(CorruptMessage):
        pin(*logs)

    assert not list((home.paths[0] / files.PINS).iterdir())


def test_only_what_logs_let_go_is_held(home: CleanerHome) -> None:
    """Bytes count as held when nobody but pins has the file; a file in two pins, for both."""
    log = home.create(min_cleanable_dirty_ratio=0.01, file_delete_delay_ms=0)
    home.fill(log, 3)
    first, second = pin(log, pin_id="1"), pin(log, pin_id="2")
    closed = sum(segment.size for segment in first[0].segments[:-1])
    assert pin_links.held_bytes([first, second]) == [0, 0]

    home.thread.step()
    home.logs.deletions.run_due()
    home.settle()

    assert pin_links.held_bytes([first, second]) == [closed, closed]
    pin_links.remove("1", home.paths)
    assert pin_links.held_bytes([second]) == [closed]


def test_start_sweeps_pins(home: CleanerHome) -> None:
    """No pin outlives the broker that gave it."""
    log = home.create()
    home.fill(log, 2)
    pin(log)
    assert list(home.paths[0].glob(".pins/p/orders-0/*.log"))

    home.restart()

    assert not (home.paths[0] / files.PINS).exists()
    assert len(read_all(home.logs.logs[TopicPartition("orders", 0)])) == 20
