"""Random lives of a compacted topic against a dictionary: whatever happens, the last value stays.

`MODEL_SEQUENCES` says how many lives, `MODEL_SEED` with which they begin; a failure names its seed.
`make model` lives thousands.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from siltstone.cleaner.one_pass.stats import Reason
from siltstone.protocol.records.build import ABORT, COMMIT
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.producers.markers import read_marker
from tests.support.batches import TIMESTAMP
from tests.support.invariants import check_folder, check_log
from tests.support.passes import CompactedFolder, content

pytestmark = pytest.mark.usefixtures("no_fsync")


SEQUENCES = int(os.environ.get("MODEL_SEQUENCES") or 100)
FIRST_SEED = int(os.environ.get("MODEL_SEED") or 0)
FALLBACKS = max(1, SEQUENCES // 10)
STEPS = 60
RETENTION_MS = 1000
PRODUCERS = (7, 8)


@dataclass
class Life:
    """A topic, and what a reader that saw all of it would know."""

    root: Path
    seed: int
    chance: random.Random = field(init=False)
    folder: CompactedFolder = field(init=False)
    written: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    last: dict[bytes, int] = field(default_factory=dict)  # key -> offset of its last record
    pending: dict[int, dict[bytes, int]] = field(default_factory=dict)  # of open transactions
    sequences: Counter[int] = field(default_factory=Counter)
    cleaned_at: dict[int, int] = field(default_factory=dict)  # offset -> end of its time at least
    happened: Counter[str] = field(default_factory=Counter)
    left: list[bytes] = field(default_factory=list)  # the whole log after each pass

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.folder = CompactedFolder(
            self.root,
            usable=self.chance.choice([3, 8, 1000]),
            chunk=self.chance.choice([100, 1000, 1 << 18]),
            segment_bytes=self.chance.choice([300, 1500, 1 << 20]),
            index_interval_bytes=self.chance.choice([0, 200]),
            delete_retention_ms=RETENTION_MS,
        )

    def step(self) -> None:
        """Do one thing."""
        steps = [self.produce] * 8 + [self.transact] * 4 + [self.end] * 3 + [self.roll] * 3
        steps += [self.clean] * 4 + [self.pass_time] * 2 + [self.restart, self.crash]
        steps += [self.change_settings]
        chosen = self.chance.choice(steps)
        self.happened[chosen.__name__] += 1
        chosen()

    def rows(self) -> list[tuple[bytes | None, bytes | None]]:
        """Make up some records."""
        chance = self.chance
        return [
            (
                None if chance.random() < 0.05 else b"key-%d" % chance.randrange(10),
                None if chance.random() < 0.25 else b"%d" % chance.randrange(1000),
            )
            for _ in range(chance.choice([1, 1, 2, 6]))
        ]

    def note(self, offset: int, rows: list[tuple[bytes | None, bytes | None]]) -> dict[bytes, int]:
        """Remember what was written; return the offsets of its keys."""
        found: dict[bytes, int] = {}
        for index, (key, value) in enumerate(rows):
            self.written[offset + index] = key, value
            if key is not None:
                found[key] = offset + index
        return found

    def produce(self) -> None:
        """Append a batch of any codec, of a producer or not, at a time that may go back."""
        rows = self.rows()
        fields = {"codec": self.chance.randrange(5), "step_ms": self.chance.randint(-5, 5)}
        if self.chance.random() < 0.3:
            fields |= {"producer_id": 5, "producer_epoch": 0, "base_sequence": self.sequences[5]}
            self.sequences[5] += len(rows)
        timestamp = TIMESTAMP + self.chance.randint(-9999, 9999)
        offset = self.folder.write(*rows, timestamp=timestamp, **fields)
        self.last |= self.note(offset, rows)

    def transact(self) -> None:
        """Append a batch of a transaction, which counts when it is committed."""
        producer_id = self.chance.choice(PRODUCERS)
        rows = self.rows()
        offset = self.folder.write_transactional(
            producer_id, *rows, sequence=self.sequences[producer_id]
        )
        self.sequences[producer_id] += len(rows)
        self.pending.setdefault(producer_id, {}).update(self.note(offset, rows))

    def end(self) -> None:
        """Commit or abort a transaction."""
        if not self.pending:
            return
        producer_id = self.chance.choice(list(self.pending))
        kind = self.chance.choice([ABORT, COMMIT])
        self.folder.write_marker(producer_id, kind)
        found = self.pending.pop(producer_id)
        if kind == COMMIT:
            for key, offset in found.items():
                self.last[key] = max(offset, self.last.get(key, -1))

    def roll(self) -> None:
        """Begin a segment."""
        self.folder.roll()

    def pass_time(self) -> None:
        """Let time go by, so that horizons are reached and old files go."""
        self.folder.pass_time(self.chance.choice([1, 300, RETENTION_MS, 70_000]))

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.folder.close()
        self.folder.reopen(is_clean=True)

    def crash(self) -> None:
        """Be killed and start again."""
        self.folder.services.background.close()
        self.folder.checkpoint()
        if self.chance.random() < 0.5:
            self.folder.recovery_point = 0
        self.folder.reopen()
        check_folder(self.folder.log)

    def change_settings(self) -> None:
        """Give the topic other settings; horizons that are set do not move."""
        config = replace(
            self.folder.log.config,
            segment_bytes=self.chance.choice([300, 1500, 1 << 20]),
            delete_retention_ms=self.chance.choice([RETENTION_MS, 2 * RETENTION_MS]),
        )
        self.folder.config = config
        self.folder.log.reconfigure(config)

    def clean(self) -> None:
        """Make a pass over all that is decided and not active."""
        log = self.folder.log
        bases = [segment.base_offset for segment in log.segments]
        upto = max(base for base in bases if base <= max(log.last_stable_offset, bases[0]))
        if upto <= self.folder.first_dirty_offset:
            return
        result = self.folder.clean(upto=upto)
        now_ms = self.folder.clock.now_ms()
        rewritten = max(each.next_offset for group in result.groups for each in group.inputs)
        for offset in self.written:
            if offset < rewritten:  # a batch beyond the map's end may get its horizon, too
                self.cleaned_at.setdefault(offset, now_ms + RETENTION_MS)
        self.happened["full map"] += result.is_map_full
        self.happened.update({str(each): gone.records for each, gone in result.dropped.items()})
        self.left.append(content(self.folder.log))
        self.check()

    def check(self) -> None:
        """Compare what a reader of committed records sees with the dictionary."""
        check_log(self.folder.log)
        seen = self.read_committed()
        offsets = [record.offset for record in seen]
        assert offsets == sorted(set(offsets))
        newest: dict[bytes, int] = {}
        clean_keys: Counter[bytes] = Counter()
        for record in seen:
            assert (record.key, record.value) == self.written[record.offset]
            if record.key is not None:
                newest[record.key] = record.offset
                clean_keys[record.key] += record.offset < self.folder.first_dirty_offset
        assert all(count <= 1 for count in clean_keys.values())
        for key, offset in self.last.items():
            if newest.get(key) == offset or offset >= self.folder.log.last_stable_offset:
                continue
            assert key not in newest, f"{key!r} goes back"
            assert self.written[offset][1] is None, f"{key!r} is lost"
            assert self.cleaned_at[offset] <= self.folder.clock.now_ms(), "a tombstone went early"
            self.happened["tombstone gone"] += 1

    def read_committed(self) -> list[Record]:
        """Read all records as a consumer of committed ones does."""
        log = self.folder.log
        aborted = sorted(log.aborted_transactions(0, log.log_end_offset), key=lambda each: each[1])
        skipping: set[int] = set()
        found: list[Record] = []
        for header, batch in self.folder.batches():
            if header.base_offset >= log.last_stable_offset:
                break
            while aborted and aborted[0][1] <= header.last_offset:
                skipping.add(aborted.pop(0)[0])
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.kind == ABORT:
                    skipping.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipping):
                found += iterate_records(batch)
        return found


def live(root: Path, seed: int) -> Life:
    """Live a life of some steps, with everything decided and cleaned at its end."""
    root.mkdir()
    life = Life(root, seed)
    for _ in range(STEPS):
        life.step()
    while life.pending:
        life.end()
    life.roll()
    for _ in range(2):
        while life.folder.first_dirty_offset < life.folder.log.segments[-1].base_offset:
            life.clean()
        life.folder.clock.advance(70_000)
        life.folder.first_dirty_offset = 0
    life.folder.clean()
    life.check()
    assert set(life.last) >= {key for _, key, _ in life.folder.rows() if key is not None}
    return life


@contextmanager
def naming(seed: int) -> Iterator[None]:
    """Have a failure say how to repeat it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"MODEL_SEED={seed} MODEL_SEQUENCES=1")
        raise


@pytest.mark.slow
@pytest.mark.timeout(60 + SEQUENCES)
def test_the_last_value_of_every_key_stays(memory_path: Path) -> None:
    """Nothing but expired tombstones is missing, nothing is twice, nothing goes back."""
    happened: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        root = memory_path / str(seed)
        with naming(seed):
            happened += live(root, seed).happened
        shutil.rmtree(root)

    print(f"{SEQUENCES} lives from seed {FIRST_SEED}:", dict(sorted(happened.items())))  # noqa: T201  # what a campaign met, with pytest -s
    if SEQUENCES >= 100:
        assert [what for what, count in happened.items() if count <= 20] == []
        assert happened["tombstone gone"] > 20
        assert happened["full map"] > 20
        assert set(map(str, Reason)) <= set(happened)


@pytest.mark.slow
@pytest.mark.timeout(60 + SEQUENCES)
def test_the_fallback_leaves_the_same_bytes(
    memory_path: Path, plain_form: Callable[[], AbstractContextManager[None]]
) -> None:
    """The same lives with kernels in plain Python leave the same log after each pass."""
    for seed in range(FIRST_SEED, FIRST_SEED + FALLBACKS):
        with naming(seed):
            compiled = live(memory_path / "compiled", seed)
            with plain_form():
                plain = live(memory_path / "plain", seed)

            assert plain.left == compiled.left
        shutil.rmtree(memory_path / "compiled")
        shutil.rmtree(memory_path / "plain")
