"""The compiled kernels against the same source uncompiled."""

import itertools
from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled import slots
from siltstone.cleaner.one_pass.key_digest import sum_with
from siltstone.protocol.core import constants
from siltstone.protocol.records.batch import CONTROL, TRANSACTIONAL
from siltstone.protocol.records.build import ABORT, build_marker, frame_batch
from siltstone.protocol.records.compression import GZIP, compress
from tests.cleaner.conftest import PLAIN
from tests.support.batches import make_batch
from tests.support.forms import in_both_forms

SECRET = (123, -456)


class Run:
    """The arrays of one run of the kernels over some batches, with a map of its own."""

    def __init__(
        self, kernel: Any, data: bytes, *, now: int = 0, first_dirty: int = 0, opened: int = 0
    ) -> None:
        self.state = array("q", bytes(8 * slots.STATE_SLOTS))
        state = self.state
        state[slots.SEED], state[slots.SEED + 1] = SECRET
        state[slots.LAST_OFFSET] = state[slots.LATEST] = -1
        state[slots.FIRST_DIRTY] = first_dirty
        state[slots.MAP_LIMIT] = 200
        state[slots.NOW] = now
        state[slots.UPPER] = 1 << 40
        state[slots.OPENED] = opened
        self.map = array("q", bytes(24 * 256))
        self.transactions = array("q", bytes(32 * 64))
        self.nothing = array("q")
        self.rows = array("q", bytes(8 * slots.WINDOW * slots.ROW_NUMBERS))
        self.plans = array("q", bytes(8 * 200 * slots.PLAN_NUMBERS))
        self.fates = bytearray(len(data) // constants.MIN_RECORD_BYTES + 1)
        self.output = bytearray(4 * len(data) + 100)
        self._run(kernel, data)

    def _run(self, kernel: Any, data: bytes) -> None:
        state, nothing = self.state, self.nothing
        kernel.map_keys(data, state, self.map, self.transactions, nothing, self.rows)
        self.mapped = list(state)
        state[slots.LAST_OFFSET] = -1
        state[slots.PRODUCERS_USED] = 0
        self.transactions = array("q", bytes(32 * 64))
        kernel.plan_batches(
            data, state, self.map, self.transactions, nothing, nothing, self.plans, self.fates,
            self.rows,
        )  # fmt: skip
        self.planned = list(state)
        kernel.emit_batches(data, state, self.plans, self.fates, self.output)

    def outcome(self) -> tuple[Any, ...]:
        """Return all that two runs have to have in common."""
        return (
            self.mapped,
            self.planned,
            list(self.state),
            self.plans.tobytes(),
            bytes(self.fates),
            bytes(self.output),
            sorted(self.map[2::3]),
        )


def lay_out(rows: list[list[tuple[bytes | None, bytes | None]]], horizon: int) -> bytes:
    """Return batches of rows, some with a horizon."""
    data, offset = b"", 0
    for number, some in enumerate(rows):
        fields = {"flags": 0x40, "base_timestamp": horizon} if number % 3 == 2 else {}
        data += make_batch(some, base_offset=offset, **fields)
        offset += len(some) + number % 2
    return data


KEY = st.none() | st.binary(max_size=9)
BATCHES = st.lists(
    st.lists(st.tuples(KEY, st.none() | st.binary(max_size=40)), min_size=1, max_size=50),
    min_size=1,
    max_size=12,
)
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.compiled
@SETTINGS
@given(BATCHES, st.integers(0, 3), st.integers(0, 30))
def test_compiled_is_plain(
    rows: list[list[tuple[bytes | None, bytes | None]]], horizon: int, first_dirty: int
) -> None:
    """State, plans, fates and output are the same, byte for byte."""
    data = lay_out(rows, horizon)

    compiled = Run(kernels, data, now=2, first_dirty=first_dirty)
    plain = Run(PLAIN, data, now=2, first_dirty=first_dirty)

    assert compiled.outcome() == plain.outcome()


@pytest.mark.compiled
@SETTINGS
@given(BATCHES, st.integers(0, 1 << 20), st.integers(0, 255), st.booleans())
def test_damage_is_seen_alike(
    rows: list[list[tuple[bytes | None, bytes | None]]], place: int, byte: int, opened: bool
) -> None:
    """Whatever byte is wrong, both stop at the same place with the same answer, or take it."""
    data = bytearray(lay_out(rows, 1))
    data[place % len(data)] = byte

    # An opened batch is not protected by its checksum: every number in it is suspect.
    compiled = Run(kernels, bytes(data), opened=opened)
    plain = Run(PLAIN, bytes(data), opened=opened)

    assert compiled.outcome() == plain.outcome()


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20, unique=True))
def test_digest_is_that_of_the_receipts(keys: list[bytes]) -> None:
    """The kernel adds up what `cleaner.one_pass.key_digest` does."""
    run = Run(kernels, bytes(make_batch([(key, b"v") for key in keys])))

    total = 0
    for key in keys:
        total = sum_with(total, key)
    mask = (1 << 64) - 1
    low, high = run.state[slots.DIGEST] & mask, run.state[slots.DIGEST + 1] & mask
    assert low | high << 64 == total


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_keys_are_summed_up_alike(keys: list[bytes]) -> None:
    """Joined keys, also empty ones, add the same to a sum in both kinds of kernels."""
    ends = array("q", itertools.accumulate(map(len, keys)))
    compiled, plain = array("q", [-1, 7]), array("q", [-1, 7])

    kernels.add_keys(b"".join(keys), ends, compiled)
    PLAIN.add_keys(b"".join(keys), ends, plain)

    assert compiled == plain


BOTH = in_both_forms("kernel", kernels, PLAIN)
MARKER = bytes(build_marker(0, 0, ABORT, 0, producer_id=7, producer_epoch=0)[61:])


@BOTH
@pytest.mark.parametrize("rest", [b"\xff\xff\xff\xff\x0f" * 3, b"\x7e" + bytes(20), bytes(15)])
def test_every_record_of_a_control_batch_is_judged(kernel: Any, rest: bytes) -> None:
    """Not the first alone: a batch that gets a horizon is written anew, record by record."""
    batch = frame_batch(MARKER + rest, 3, flags=CONTROL | TRANSACTIONAL, producer_id=7)

    assert Run(kernel, bytes(batch)).planned[slots.STATUS] == constants.BAD_RECORD


@BOTH
def test_a_compressed_control_batch_is_opened_first(kernel: Any) -> None:
    """Its compressed bytes are no records, and its count no number of them."""
    packed = compress(GZIP, MARKER)
    flags = CONTROL | TRANSACTIONAL
    batch = frame_batch(packed, (1 << 31) - 1, codec=GZIP, flags=flags, producer_id=7)

    run = Run(kernel, bytes(batch))

    assert run.mapped[slots.STATUS] == run.planned[slots.STATUS] == slots.OPEN


@BOTH
@pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 63) - 3])
def test_offsets_end_before_their_type_does(kernel: Any, base: int) -> None:
    """No sum of an offset and a delta leaves 64 bits."""
    batch = make_batch(3, base_offset=base)

    run = Run(kernel, bytes(batch))

    assert run.mapped[slots.STATUS] == run.planned[slots.STATUS] == constants.OFFSET_BACKWARDS


@BOTH
def test_a_transaction_of_nobody_leaves_no_trace(kernel: Any) -> None:
    """Of the id -1 no slot is told from an empty one: the next producer would inherit it."""
    data = make_batch(1, flags=TRANSACTIONAL, producer_id=-1)
    data += frame_batch(MARKER, 1, base_offset=1, flags=CONTROL | TRANSACTIONAL, producer_id=-1)

    run = Run(kernel, bytes(data))

    assert run.planned[slots.STATUS] == slots.DONE
    assert not any(run.transactions)
