"""The rounds of a cleaner thread, one by one and without a thread, with the real pass."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import Reason
from siltstone.cleaner.selection import find_cleanable
from siltstone.cleaner.set_aside import FIRST_PAUSE_SECONDS
from siltstone.cleaner.states import State
from siltstone.storage import files
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP
from tests.support.cleaner import CleanerHome, aborted, read_all
from tests.support.logs import flipped


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    """A cleaner thread that the test runs, over logs that it fills."""
    home = CleanerHome(tmp_path)
    yield home
    home.close()


def events(home: CleanerHome) -> list[dict[str, Any]]:
    """Return how the passes ended."""
    return [event for event in read_history(home.paths[0]) if event["event"] == "pass"]


def test_a_round_cleans_the_filthiest_log(home: CleanerHome) -> None:
    """The last value of every key stays, the checkpoint moves, the next round is idle."""
    log = home.create()
    home.fill(log, 3)

    assert home.thread.step()

    assert [record.offset for record in read_all(log)] == list(range(20, 30))
    assert home.checkpoint() == "0\n1\norders 0 30\n"
    assert home.manager.states.get(log.topic_partition) is State.NONE
    assert not home.thread.step()


@pytest.mark.parametrize("below", [0, 1 << 62], ids=["last", "half"])
def test_a_retention_beyond_the_last_time(
    home: CleanerHome, caplog: pytest.LogCaptureFixture, below: int
) -> None:
    """It wraps round, as in Kafka, so that tombstones go at once: a line says so."""
    log = home.create(delete_retention_ms=(1 << 63) - 1 - below)
    home.fill(log, 2)

    assert home.thread.step()

    assert ("delete.retention.ms reaches beyond the last time" in caplog.text) == (below == 0)


def test_groups_that_leave_nothing_with_room_reserved(home: CleanerHome) -> None:
    """With preallocate=true an empty new segment is like any other: the pass ends well."""
    log = home.create(preallocate=True, segment_bytes=200)
    home.fill(log, 4)

    assert home.thread.step()

    assert [event["outcome"] for event in events(home)] == ["cleaned"]
    assert [record.offset for record in read_all(log)] == list(range(30, 40))
    assert [segment.size for segment in log.segments][:3] == [0, 0, 0]


def test_pass_is_an_event_with_a_receipt(home: CleanerHome) -> None:
    """One line of JSON: offsets, segments, records by reason, files with size and CRC-32C."""
    log = home.create()
    home.fill(log, 3)
    sizes = [segment.size for segment in log.segments[:3]]

    home.thread.step()

    (event,) = events(home)
    receipt = event["receipt"]
    assert event["outcome"] == "cleaned"
    assert (event["topic"], event["partition"]) == ("orders", 0)
    assert (event["first_dirty_offset"], event["end_offset"]) == (0, 30)
    assert (event["segments_in"], event["segments_out"]) == (3, 1)
    assert (event["records_in"], event["records_out"]) == (30, 10)
    assert event["records_dropped"]["superseded"] == 20
    (group,) = receipt["groups"]
    assert [each["size"] for each in group["inputs"]] == sizes
    assert [each["name"] for each in group["outputs"]] == ["00000000000000000000.log"]
    assert len(receipt["key_digest"]) == 32
    assert all(len(each["crc32c"]) == 8 for each in group["inputs"] + group["outputs"])
    json.dumps(event)


def test_figures_are_those_of_the_pass(home: CleanerHome) -> None:
    """Totals by reason, and what the next explanation has to know."""
    log = home.create()
    home.fill(log, 3)

    home.thread.step()

    figures = home.services.figures
    assert figures.passes == 1
    assert figures.dropped[Reason.SUPERSEDED] == 20
    assert figures.last[log.topic_partition].end_offset == 30
    assert 0 < figures.recopy_percent < 100
    assert figures.max_buffer_utilization_percent > 0


def test_last_passes_are_known_after_a_restart(home: CleanerHome) -> None:
    """But not those of a topic of the same name that was deleted."""
    log = home.create()
    home.fill(log, 3)
    home.thread.step()
    last = home.services.figures.last
    home.restart()
    reopened = home.logs.logs[log.topic_partition]

    home.services.figures.recall(events(home), {log.topic_partition: reopened})
    assert home.services.figures.last == last
    foreign = [{**event, "topic_id": "another"} for event in events(home)]
    home.services.figures.last.clear()
    home.services.figures.recall(foreign, {log.topic_partition: reopened})
    assert home.services.figures.last == {}


def test_damage_stops_its_partition_only(
    home: CleanerHome, caplog: pytest.LogCaptureFixture
) -> None:
    """File, position and offset are named once, the log serves on, the others are cleaned."""
    bad, good = home.create("bad"), home.create("good")
    home.fill(bad, 4)
    home.fill(good, 3)
    before = {path.name: path.read_bytes() for path in bad.path.glob("*.log")}

    with flipped(bad.segments[1].log_path, 70):
        assert home.thread.step()
        assert home.thread.step()
        assert not home.thread.step()

        failure = home.manager.failure(bad.topic_partition)
        assert failure is not None
        assert failure.cause == "CorruptSegment"
        assert "00000000000000000010.log" in failure.reason
        assert [each["outcome"] for each in events(home)] == ["failed", "cleaned"]
        assert home.services.figures.failures == {"CorruptSegment": 1}
        assert "cleaning failed" in caplog.text
    assert {path.name: path.read_bytes() for path in bad.path.glob("*.log")} == before
    assert len(read_all(good)) == 10
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    assert home.thread.step()
    assert home.manager.failure(bad.topic_partition) is None


def test_aborted_pass_leaves_the_log_as_it_was(home: CleanerHome) -> None:
    """No checkpoint, no unfinished file; the caller that waited has the partition."""
    log = home.create()
    home.fill(log, 3)
    with ExitStack() as stack:

        def abort() -> None:
            home.on_check = lambda: None
            stack.enter_context(aborted(home.manager.states, log.topic_partition))

        home.on_check = abort

        assert home.thread.step()

    assert home.checkpoint() == ""
    assert len(read_all(log)) == 30
    assert not list(log.path.glob(f"*{files.CLEANED}"))
    assert [each["outcome"] for each in events(home)] == ["aborted"]
    assert home.manager.states.get(log.topic_partition) is State.NONE


def test_stopping_thread_ends_its_pass(home: CleanerHome) -> None:
    """At the next check, and the log is free again."""
    log = home.create()
    home.fill(log, 3)
    home.thread.stop()

    assert home.thread.step()

    assert len(read_all(log)) == 30
    assert home.manager.states.get(log.topic_partition) is State.NONE


def test_checkpoint_that_cannot_be_written_is_a_failure(
    home: CleanerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments are in place; the same range is cleaned again later, which changes nothing."""
    log = home.create()
    home.fill(log, 3)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("siltstone.storage.directory.checkpoint.files.replace_file", refuse)
        assert home.thread.step()

    assert home.manager.failure(log.topic_partition) is not None
    assert len(read_all(log)) == 10
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    assert home.thread.step()
    assert home.checkpoint() == "0\n1\norders 0 30\n"
    assert len(read_all(log)) == 10


def test_retention_follows_the_pass(home: CleanerHome) -> None:
    """With compact,delete old segments go, in the same thread and through the same gate."""
    log = home.create(cleanup_policy=("compact", "delete"), retention_ms=3_600_000)
    home.fill(log, 3, timestamp=TIMESTAMP - 7_200_000)

    assert home.thread.step()

    assert log.log_start_offset == log.log_end_offset == 30
    assert read_all(log) == []


def test_retention_of_clean_logs_goes_on(home: CleanerHome) -> None:
    """Each idle round trims; the checkpoint is then moved up without a word."""
    log = home.create(cleanup_policy=("compact", "delete"), retention_ms=3_600_000)
    home.fill(log, 3)
    home.thread.step()
    assert len(read_all(log)) == 10

    home.clock.advance(7_200_000)
    assert not home.thread.step()

    assert log.log_start_offset == 30
    assert read_all(log) == []


def test_compacted_log_loses_what_is_below_its_start(home: CleanerHome) -> None:
    """Compact alone drops segments wholly below the log start offset (KAFKA-7400)."""
    log = home.create(cleanup_policy=("compact", "delete"), retention_ms=-1)
    home.fill(log, 3)
    log.delete_records(20)
    home.reconfigure(log, min_cleanable_dirty_ratio=1.0)

    assert not home.thread.step()

    assert log.segments[0].base_offset == 20


def test_log_that_somebody_holds_is_not_trimmed(home: CleanerHome) -> None:
    """Retention goes through the same gate as cleaning."""
    log = home.create(cleanup_policy=("compact", "delete"), retention_ms=3_600_000)
    home.fill(log, 3, timestamp=TIMESTAMP - 7_200_000)
    home.manager.states.abort_and_pause(log.topic_partition)

    assert not home.thread.step()

    assert len(log.segments) == 4
    home.manager.states.resume(log.topic_partition)


def test_prediction_comes_true(home: CleanerHome) -> None:
    """The pass does what a dry run says, if nothing was written in between."""
    log = home.create()
    home.fill(log, 3)
    append_unchecked(log, [(b"k1", None), (b"k2", b"other")])
    log.roll()
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())

    prediction = home.pool.dry_run(log, cleanable)

    assert prediction is not None
    assert len(read_all(log)) == 32
    assert home.manager.states.get(log.topic_partition) is State.NONE
    home.thread.step()
    assert events(home)[-1]["prediction_held"] is True
    assert prediction.result.records_written == len(read_all(log))


def test_prediction_comes_true_later(home: CleanerHome) -> None:
    """A later horizon makes other bytes of a batch; all else is as predicted."""
    log = home.create(delete_retention_ms=60)
    append_unchecked(log, [(b"k1", None)], timestamp=home.clock.now_ms())
    log.roll()
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())
    prediction = home.pool.dry_run(log, cleanable)
    home.clock.advance(1_000)

    home.thread.step()

    event = events(home)[-1]
    assert prediction is not None
    assert event["prediction_held"] is True
    assert event["bytes_out"] == prediction.result.bytes_written + 1
    assert event["horizons_set"] == 1


def test_prediction_of_another_log_is_not_judged(home: CleanerHome) -> None:
    """Records that were written meanwhile make another pass than the predicted one."""
    log = home.create()
    home.fill(log, 3)
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())
    home.pool.dry_run(log, cleanable)
    home.fill(log, 1)

    home.thread.step()

    assert "prediction_held" not in events(home)[-1]


def test_log_in_work_is_not_predicted(home: CleanerHome) -> None:
    """Nobody reads segments that are being replaced."""
    log = home.create()
    home.fill(log, 3)
    cleanable = find_cleanable(home.manager.snapshot(log), home.clock.now_ms())
    assert home.manager.take(log)

    assert home.pool.dry_run(log, cleanable) is None

    home.manager.release(log)


def test_map_that_holds_nothing_is_a_failure(home: CleanerHome) -> None:
    """A pass that comes no further would be repeated for ever: the setting is named."""
    log = home.create()
    home.fill(log, 3)

    class Stuck:
        progress = None

        def clean(self, log: LogToClean, replace: object, still_wanted: Callable[[], None]) -> Any:
            still_wanted()
            return type("Result", (), {"end_offset": log.first_dirty_offset})()

        def close(self) -> None: ...

    home.services = home.make_services(lambda _: Stuck())  # type: ignore[arg-type, return-value]
    home.thread = home.make_thread()

    home.thread.step()

    failure = home.manager.failure(log.topic_partition)
    assert failure is not None
    assert "log.cleaner.dedupe.buffer.size" in failure.reason


def test_a_dropped_record_without_a_key_is_told(
    home: CleanerHome, caplog: pytest.LogCaptureFixture
) -> None:
    """It was written before the policy changed: a line says how many there were."""
    log = home.create(cleanup_policy=("delete",))
    append_unchecked(log, [(None, b"lost"), (b"k", b"kept")])
    log.roll()
    home.settle()
    home.reconfigure(log)

    home.thread.step()

    assert [record.key for record in read_all(log)] == [b"k"]
    assert "records without a key were dropped partition=orders-0 count=1" in caplog.text


def test_worker_is_made_anew_when_settings_change(home: CleanerHome) -> None:
    """Map and buffers follow from the next pass on; the old worker is closed."""

    class Idle:
        progress = None
        is_closed = False

        def clean(self, *_: object) -> Any:
            raise CleaningAborted("enough")

        def close(self) -> None:
            self.is_closed = True

    made: list[Idle] = []

    def make(_: object) -> Idle:
        made.append(Idle())
        return made[-1]

    home.services = home.make_services(make)  # type: ignore[arg-type]
    home.thread = home.make_thread()
    home.fill(home.create(), 3)

    home.thread.step()
    home.thread.step()
    assert len(made) == 1
    home.thread.settings = home.settings_with(io_buffer_bytes=4096)
    home.thread.step()

    assert [each.is_closed for each in made] == [True, False]


def test_one_line_tells_of_a_pass(home: CleanerHome, caplog: pytest.LogCaptureFixture) -> None:
    """The operator's story: which partition, from where to where, bytes and records."""
    home.fill(home.create(), 3)

    with caplog.at_level(logging.INFO, "siltstone.cleaner"):
        home.thread.step()

    lines = [each for each in caplog.messages if each.startswith("cleaned ")]
    assert len(lines) == 1
    assert "partition=orders-0" in lines[0]
    assert "records_in=30 records_out=10" in lines[0]


def test_log_is_free_when_the_thread_dies_in_its_pass(home: CleanerHome) -> None:
    """An error that kills the thread does not keep the partition for ever."""

    class Deadly:
        progress = None

        def clean(self, *_: object) -> Any:
            raise SystemExit

        def close(self) -> None: ...

    log = home.create()
    home.fill(log, 3)
    home.services = home.make_services(lambda _: Deadly())  # type: ignore[arg-type, return-value]
    thread = home.make_thread()

    with pytest.raises(SystemExit):
        thread.step()

    assert home.manager.states.get(log.topic_partition) is State.NONE


def test_session_of_the_latest_product_prices(home: CleanerHome) -> None:
    """Seven prices one by one, a segment each: the last of every product stays, and the active."""
    log = home.create(
        "latest-product-price",
        delete_retention_ms=100,
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
    )
    prices = ("p3:10$", "p5:7$", "p3:11$", "p6:25$", "p6:12$", "p5:14$", "p5:17$")
    for number, price in enumerate(prices):
        key, _, value = price.partition(":")
        append_unchecked(log, [(key.encode(), value.encode())], timestamp=TIMESTAMP + 150 * number)
    home.settle()

    while home.thread.step():
        pass

    assert [(each.key, each.value) for each in read_all(log)] == [
        (b"p3", b"11$"),
        (b"p6", b"12$"),
        (b"p5", b"14$"),
        (b"p5", b"17$"),
    ]
    assert home.checkpoint() == "0\n1\nlatest-product-price 0 6\n"
