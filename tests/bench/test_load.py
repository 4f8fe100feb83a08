"""The load generator against its own floor: frames, positions and figures fit together."""

import json
import shutil

import pytest

from bench.frames import Frames, batch_of, fetch_frames, produce_answer, produce_frames
from bench.load import Load
from bench.run import main
from siltstone.protocol.records.batch import BatchHeader

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="cc: no C compiler for bench/load.c"
)


@pytest.mark.parametrize("batch_bytes", [16 << 10, 64 << 10, 1 << 20])
@pytest.mark.parametrize("record_bytes", [100, 1000])
def test_batch_has_exactly_the_size(batch_bytes: int, record_bytes: int) -> None:
    """A fetch of whole batches needs batches of one size."""
    batch = batch_of(batch_bytes, record_bytes, 1_700_000_000_000)

    assert len(batch) == BatchHeader.read(batch).size == batch_bytes


def test_frames_are_of_one_size() -> None:
    """The generator finds the k-th frame by multiplication."""
    frames = produce_frames("t", range(5000), b"x" * 100, 1)

    assert len(frames.data) == 5000 * (4 + int.from_bytes(frames.data[:4], "big"))


def test_positions_point_where_kio_writes() -> None:
    """The error code lies before the first offset of an answer."""
    answer = produce_answer("topic")
    position = produce_frames("topic", [0], b"x", 1).positions["error_at"]

    assert answer[position : position + 2] == b"\0\0"
    assert answer[position - 4 : position] == b"\0\0\0\0", "the partition's index"
    assert fetch_frames("topic", [0], 1).positions["offset_at"] > 0


def test_closed_loop_counts_what_it_sent() -> None:
    """Every answer is one request, and processor time is read."""
    load = Load()
    frames = produce_frames("topic", range(4), batch_of(0, 100, 1_700_000_000_000), 1)
    with load.running("floor", Frames(data=produce_answer("topic"), positions={})) as floor:
        process, line = floor
        got = load.run(
            "produce",
            frames,
            port=json.loads(line)["port"],
            pid=process.pid,
            connections=3,
            inflight=5,
            warmup=0,
            seconds=5,
            count=5000,
        )

    assert 5000 <= got["requests"] < 5100
    assert got["bytes"] == got["requests"] * len(frames.data) // 4
    assert 0 < got["p50_us"] <= got["p99_us"] <= got["max_us"] + 1


def test_refusal_is_an_error() -> None:
    """A broker that answers with an error code is not measured."""
    load = Load()
    answer = bytearray(produce_answer("topic"))
    frames = produce_frames("topic", [0], b"x", 1)
    answer[frames.positions["error_at"] + 1] = 3
    with (
        load.running("floor", Frames(data=bytes(answer), positions={})) as (_, line),
        pytest.raises(RuntimeError, match="error code 3"),
    ):
        load.run("produce", frames, port=json.loads(line)["port"], warmup=0, count=1)


@pytest.mark.slow
def test_table_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    """One case of the first table runs from end to end against our broker."""
    code = main(["--case", "8x1", "--rounds", "1", "--seconds", "1", "--json", f"{tmp_path}/lines"])

    assert code == 0
    assert "CPU us/request" in capsys.readouterr().out
