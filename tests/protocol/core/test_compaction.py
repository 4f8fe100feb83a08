"""A pass over bytes, compiled and in plain Python: the map, transactions, what stays."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.protocol.core import compaction, constants
from siltstone.protocol.core.constants import CONTROL, TRANSACTIONAL
from siltstone.protocol.records.build import ABORT, COMMIT, build_marker, frame_batch
from siltstone.protocol.records.compression import GZIP, compress
from tests.reference import compaction as reference
from tests.reference.compaction import sip_hash
from tests.support.batches import make_batch
from tests.support.forms import in_both_forms

PLAIN = reference
BOTH = in_both_forms("core", compaction, PLAIN)
FAR = 1 << 40
SECRET = bytes(range(16))
COUNTS = (
    "batches_emptied",
    "batches_read",
    "batches_rebuilt",
    "batches_written",
    "dropped",
    "horizons_reached",
    "horizons_set",
    "key_digest",
    "last_offset",
    "needed",
    "next_horizon",
    "records_read",
    "records_written",
    "status",
)
# Of the reference implementation, SipHash-2-4 with 128 bits of output: key 00 01 … 0f, input
# nothing, 00, 00 01, …
VECTORS = ("a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45")

Rows = list[list[tuple[bytes | None, bytes | None]]]


class Pass(NamedTuple):
    """The results of a pass over some batches."""

    mapped: dict[str, Any]
    mapped_upto: int
    copied: dict[str, Any]
    copied_upto: int
    output: bytes
    kept: list[tuple[int, ...]]

    def like_another(self) -> "Pass":
        """Return what another form has in common: a full map is noticed some records later."""
        if self.mapped["status"] != constants.FULL:
            return self
        return self._replace(mapped={"latest": self.mapped["latest"]}, mapped_upto=0)


def run(  # what a pass is given
    core: Any,
    data: bytes | bytearray,
    *,
    now: int = 0,
    first_dirty: int = 0,
    usable: int = 200,
    is_opened: bool = False,
    aborted: Iterable[tuple[int, int, int]] = (),
    producers: Iterable[tuple[int, int, int]] = (),
) -> Pass:
    """Map some batches and copy what stays of them; an opened batch stands for itself."""
    aborted = tuple(aborted)
    with core.OffsetMap(usable * constants.SLOT_BYTES, SECRET, 1.0) as offsets:
        builder = core.MapBuilder(offsets, core.Transactions(aborted), first_dirty)
        mapped_upto = builder.read(data, is_opened=is_opened)
        mapped = {
            each: getattr(builder, each)
            for each in ("batches", "last_offset", "latest", "needed", "records", "status")
        }
        mapped["keys"] = offsets.keys
        transactions = core.Transactions(aborted)
        copied = core.RecordFilter(
            offsets,
            transactions,
            latest=builder.latest,
            now_ms=now,
            retention_ms=10,
            high_watermark=FAR,
            producers=producers,
        )
        if is_opened:
            copied_upto = 0
            rebuilt = copied.copy_opened(b"as it was", data)
            output = bytes(copied.written()) if rebuilt is None else bytes(rebuilt)
        else:
            copied_upto = copied.copy(data)
            output = bytes(copied.written())
        counts = {each: getattr(copied, each) for each in COUNTS}
        return Pass(mapped, mapped_upto, counts, copied_upto, output, transactions.take_kept())


def lay_out(rows: Rows, horizon: int) -> bytes:
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


@pytest.mark.slow
@SETTINGS
@given(BATCHES, st.integers(0, 3), st.integers(0, 30), st.sampled_from([3, 40, 1000]))
def test_both_forms_do_the_same(rows: Rows, horizon: int, first_dirty: int, usable: int) -> None:
    """Counts, digest and output are the same, byte for byte."""
    data = lay_out(rows, horizon)

    chosen, plain = (
        run(core, data, now=2, first_dirty=first_dirty, usable=usable)
        for core in (compaction, PLAIN)
    )

    assert chosen.like_another() == plain.like_another()


@SETTINGS
@given(BATCHES, st.integers(0, 1 << 20), st.integers(0, 255), st.booleans())
def test_damage_is_seen_alike(rows: Rows, place: int, byte: int, is_opened: bool) -> None:
    """Whatever byte is wrong, both stop at the same place with the same answer, or take it."""
    if is_opened:  # its checksum no longer protects it: every number in it is suspect
        rows = rows[:1]
    data = bytearray(lay_out(rows, 1))
    data[place % len(data)] = byte

    chosen = run(compaction, data, is_opened=is_opened)

    assert chosen.like_another() == run(PLAIN, data, is_opened=is_opened).like_another()


MARKERS = {
    kind: bytes(build_marker(0, 0, kind, 0, producer_id=7, producer_epoch=0)[61:])
    for kind in (ABORT, COMMIT)
}
STEPS = st.lists(st.tuples(st.sampled_from(["data", ABORT, COMMIT]), st.integers(-1, 4)))


@SETTINGS
@given(STEPS, st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 20), st.integers(0, 20))))
def test_transactions_are_followed_alike(
    steps: list[tuple[Any, int]], aborted: list[tuple[int, int, int]]
) -> None:
    """Whatever begins and ends when: the same batches go, the same entries stay."""
    data = b""
    for offset, (kind, producer_id) in enumerate(steps):
        fields = {"base_offset": offset, "producer_id": producer_id}
        if kind == "data":
            data += make_batch([(b"%d" % producer_id, b"v")], flags=TRANSACTIONAL, **fields)
        else:
            data += frame_batch(MARKERS[kind], 1, flags=CONTROL | TRANSACTIONAL, **fields)
    producers = [(1, 0, -1), (3, 0, 4)]

    chosen, plain = (
        run(core, data, aborted=aborted, producers=producers) for core in (compaction, PLAIN)
    )

    assert chosen == plain


@pytest.mark.parametrize(("size", "expected"), list(enumerate(VECTORS)))
def test_digest_is_siphash(size: int, expected: str) -> None:
    """With the published rounds it gives the published digests."""
    key = bytes(range(16))
    seed = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))

    digest = sip_hash(bytes(range(size)), seed, (2, 4))

    assert digest.to_bytes(16, "little").hex() == expected


@given(st.lists(st.binary(max_size=40), max_size=20, unique=True))
def test_digest_is_that_of_the_receipts(keys: list[bytes]) -> None:
    """Of a set of keys, in whatever order, and of the keys that stay: the same in both forms."""
    data = b"".join(make_batch([(key, b"")], base_offset=at) for at, key in enumerate(keys))
    digest = PLAIN.digest_of(keys)

    assert compaction.digest_of(keys) == compaction.digest_of(keys[::-1]) == digest
    assert run(compaction, data).copied["key_digest"] == digest


@BOTH
def test_capacity_is_kafkas(core: Any) -> None:
    """128 MiB at a load of 0.9 take 5,033,164 keys."""
    offsets = core.OffsetMap(134_217_728, SECRET, 0.9)

    assert (offsets.max_slots, offsets.usable) == (5_592_405, 5_033_164)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_secret_has_a_size(size: int) -> None:
    """Nothing is read past the end of a shorter one."""
    with pytest.raises(ValueError, match=f"a secret of {size} bytes: a map takes 16"):
        compaction.OffsetMap(1 << 20, bytes(size))


@BOTH
def test_growth_keeps_every_key(core: Any) -> None:
    """Memory is taken as keys come, and given back; the second pass begins small and empty."""
    keys = [b"key %d" % number for number in range(26_000)]  # three quarters of 32,768, and more
    some = [make_batch([(key, b"") for key in keys[at : at + 500]], base_offset=at)
            for at in range(0, len(keys), 500)]  # fmt: skip
    offsets = core.OffsetMap(1 << 20, SECRET)
    for _ in range(2):
        with offsets:
            small = offsets.memory_bytes
            builder = core.MapBuilder(offsets, core.Transactions(()), 0)
            builder.read(b"".join(some))
            large = offsets.memory_bytes
            copied = core.RecordFilter(
                offsets, core.Transactions(()), latest=builder.latest, now_ms=0, retention_ms=0,
                high_watermark=FAR,
            )  # fmt: skip
            copied.copy(make_batch([(key, b"") for key in keys[:500]]))

            assert offsets.keys == len(keys)
            assert copied.records_written == 500  # they have the offsets of the map
        assert small == (1 + (1 << 15)) * constants.SLOT_BYTES
        assert small < large <= (1 << 20) + constants.SLOT_BYTES
        assert (offsets.memory_bytes, offsets.keys) == (0, 0)


@BOTH
def test_hundreds_of_producers_are_told_apart(core: Any) -> None:
    """Tables of open transactions grow and keep what is open."""
    ids = range(1000)
    data = b"".join(
        make_batch([(b"%d" % each, b"")], base_offset=each, flags=TRANSACTIONAL, producer_id=each)
        for each in ids
    )
    for each in ids:
        marker = MARKERS[ABORT if each % 3 == 0 else COMMIT]
        data += frame_batch(
            marker, 1, base_offset=1000 + each, flags=CONTROL | TRANSACTIONAL, producer_id=each
        )
    aborted = [(each, each, 1000 + each) for each in ids if each % 3 == 0]

    done = run(core, data, usable=2000, aborted=aborted[::-1])

    assert done.kept == aborted
    assert done.copied["dropped"][constants.BY_ABORTED][0] == len(aborted)
    assert done.copied["records_written"] == 2000 - len(aborted)


@BOTH
@pytest.mark.parametrize("rest", [b"\xff\xff\xff\xff\x0f" * 3, b"\x7e" + bytes(20), bytes(15)])
def test_every_record_of_a_control_batch_is_judged(core: Any, rest: bytes) -> None:
    """Not the first alone: a batch that gets a horizon is written again, record by record."""
    batch = frame_batch(MARKERS[ABORT] + rest, 3, flags=CONTROL | TRANSACTIONAL, producer_id=7)

    assert run(core, batch).copied["status"] == constants.BAD_RECORD


@BOTH
def test_a_compressed_control_batch_is_opened_first(core: Any) -> None:
    """Its compressed bytes are no records, and its count no number of them."""
    packed = compress(GZIP, MARKERS[ABORT])
    flags = CONTROL | TRANSACTIONAL
    batch = frame_batch(packed, (1 << 31) - 1, codec=GZIP, flags=flags, producer_id=7)

    done = run(core, batch)

    assert done.mapped["status"] == done.copied["status"] == constants.IS_CLOSED
    assert done.mapped_upto == done.copied_upto == 0


@BOTH
@pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 63) - 3])
def test_offsets_end_before_their_type_does(core: Any, base: int) -> None:
    """No sum of an offset and a delta leaves 64 bits."""
    done = run(core, make_batch(3, base_offset=base))

    assert done.mapped["status"] == done.copied["status"] == constants.OFFSET_BACKWARDS


@BOTH
def test_a_transaction_of_nobody_leaves_no_trace(core: Any) -> None:
    """The id -1 is no producer's: its marker ends nothing, and gets no horizon."""
    data = make_batch(1, flags=TRANSACTIONAL, producer_id=-1)
    data += frame_batch(
        MARKERS[COMMIT], 1, base_offset=1, flags=CONTROL | TRANSACTIONAL, producer_id=-1
    )

    done = run(core, data, aborted=[(-1, 0, 1)])

    assert done.copied["status"] == constants.WANTS_MORE
    assert done.output == data
    assert not done.kept


@BOTH
def test_what_an_opened_batch_leaves_is_closed_again(core: Any) -> None:
    """A batch that stays whole is written as it came; one that is made again is handed out."""
    whole = make_batch([(b"a", b"1"), (b"b", b"2")])
    thinned = make_batch([(b"a", b"1"), (b"a", b"2")])

    assert run(core, whole, is_opened=True).output == b"as it was"
    assert len(run(core, thinned, is_opened=True).output) < len(thinned)


@BOTH
def test_output_goes_on_until_it_is_cleared(core: Any) -> None:
    """Chunks go into one output, which is handed out, cleared, and used again."""
    batches = [bytes(make_batch([(b"%d" % at, b"v" * at)], base_offset=at)) for at in range(200)]
    with core.OffsetMap(1 << 16, SECRET) as offsets:
        copied = core.RecordFilter(
            offsets, core.Transactions(()), latest=-1, now_ms=0, retention_ms=0,
            high_watermark=FAR,
        )  # fmt: skip
        for batch in batches[:100]:
            copied.copy(batch)
        with copied.written() as written:
            assert bytes(written) == b"".join(batches[:100])
        copied.clear()
        copied.copy(b"".join(batches[100:199]) + batches[199][:-1])

        assert copied.size == len(b"".join(batches[100:199]))
        assert (copied.status, copied.needed) == (constants.WANTS_MORE, len(batches[199]))
        assert bytes(copied.written()) == b"".join(batches[100:199])
        copied.shrink()
        assert copied.size == 0


@BOTH
def test_a_position_outside_is_refused(core: Any) -> None:
    """It would be read from elsewhere in memory."""
    with core.OffsetMap(1 << 16, SECRET) as offsets:
        builder = core.MapBuilder(offsets, core.Transactions(()), 0)
        for position in (-1, 4):
            with pytest.raises(ValueError, match="not inside the buffer"):
                builder.read(b"abc", position)
