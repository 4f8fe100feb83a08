"""A pass against the rules in `tests.support.pass_rules`: the same bytes, of any log."""

from collections.abc import Sequence
from dataclasses import replace as with_fields
from pathlib import Path

import pytest

from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean, aborted_in
from siltstone.cleaner.one_pass.stats import PassResult, Reason
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core.constants import SLOT_BYTES
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment
from tests.support.clock import FakeClock
from tests.support.invariants import check_indexes
from tests.support.pass_oracle import Expected, expect
from tests.support.passes import go_on
from tests.support.random_logs import HOUR, NOW, make_log

SEEDS = 60


class Folder:
    """A log that is cleaned again and again, each pass compared with the rules."""

    def __init__(self, log: LogToClean, *, usable: int = 1 << 20, chunk: int = 1 << 18) -> None:
        self.log = log
        self.usable = usable
        self.clock = FakeClock(NOW)
        self.cleaner = Cleaner(
            clock=self.clock,
            throttle=Throttle(self.clock),
            dedupe_buffer_bytes=usable * SLOT_BYTES,
            load_factor=1.0,
            io_buffer_bytes=chunk,
        )
        self._segments: list[ReadableSegment] = []
        self._written: list[bytes] = []

    def clean(self) -> PassResult:
        """Predict a pass, make it, and compare both with the rules."""
        log = self.log
        expected = expect(log, usable=self.usable, now_ms=self.clock.now_ms())
        self._segments = list(log.segments)
        self._written.clear()
        prediction = self.cleaner.dry_run(log, go_on)
        result = self.cleaner.clean(log, self._swap, go_on)
        check(expected, result, self._written)
        assert prediction.result.effect == result.effect
        segments = tuple(self._segments)
        assert prediction.bytes_after == sum(segment.size for segment in segments)
        aborted = aborted_in(segments)
        if not result.is_map_full:
            assert {(each.producer_id, each.first_offset) for each in aborted} == set(
                expected.aborted
            )
        self.log = with_fields(
            log, segments=segments, aborted=aborted, first_dirty_offset=result.end_offset
        )
        return result

    def _swap(self, new: Sequence[LogSegment], old: Sequence[ReadableSegment]) -> None:
        assert new[0].base_offset == old[0].base_offset
        assert [segment.size for segment in new[1:]] in ([], [0])
        for segment in new:
            self._written.append(segment.read(0, segment.size))
            check_indexes(segment)
            assert segment.files.modified_ns == old[-1].files.modified_ns
        at = self._segments.index(old[0])
        self._segments[at : at + len(old)] = new
        for each in old:
            each.files.unlink()
        for segment in new:
            segment.files.change_suffix("")


def check(expected: Expected, result: PassResult, written: list[bytes]) -> None:
    """Compare a pass with what it must do."""
    assert result.end_offset == expected.end_offset
    assert result.map_keys == expected.map_keys
    assert written == expected.segments
    assert result.records_written == expected.kept
    dropped = {str(reason): each.records for reason, each in result.dropped.items() if each.records}
    assert dropped == {fate.value: count for fate, count in expected.dropped.items()}
    assert result.bytes_written == sum(map(len, written))


def clean_repeatedly(path: Path, seed: int) -> list[PassResult]:
    """Make passes over a random log while hours go by, with a map and a buffer of some size."""
    folder = Folder(
        make_log(path, seed, steps=30 + seed % 20),
        usable=[1 << 20, 5, 11][seed % 3],
        chunk=[1 << 18, 64, 500][seed // 3 % 3],
    )
    results = []
    for _ in range(3):
        results.append(folder.clean())
        folder.clock.advance(HOUR)
    return results


@pytest.mark.parametrize("seed", range(SEEDS))
def test_passes_obey_the_rules(memory_path: Path, both_forms: str, seed: int) -> None:
    """Every batch that stays is the one that the rules give, byte for byte, pass after pass."""
    clean_repeatedly(memory_path, seed)


@pytest.mark.slow
def test_random_logs_have_everything(memory_path: Path) -> None:
    """The seeds above meet every reason to drop a record, and all that can become of a batch."""
    dropped: set[Reason] = set()
    counts = [0, 0, 0, 0]
    for seed in range(SEEDS):
        path = memory_path / str(seed)
        path.mkdir()
        for result in clean_repeatedly(path, seed):
            dropped |= {reason for reason, each in result.dropped.items() if each.records}
            counts[0] += result.batches_emptied
            counts[1] += result.batches_rebuilt
            counts[2] += result.is_map_full
            counts[3] += any(len(group.inputs) > 1 for group in result.groups)

    assert dropped == set(Reason)
    assert min(counts) > 10
