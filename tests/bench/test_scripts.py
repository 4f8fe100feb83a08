"""Scripts of clients: what is written for the generator is what a client would send."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from bench.clients import messages
from bench.clients.messages import message
from bench.clients.scripts import (
    Script,
    Step,
    answer_frames,
    error_positions,
    find_refusal,
    play_frames,
    sequence_patches,
    with_producer,
)
from bench.clients.topics import list_offsets
from bench.connection import answer_frame, frame, part, response_class
from bench.frames import batch_of
from bench.load import Load

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="cc: no C compiler for bench/load.c"
)


def _offsets(*errors: ErrorCode) -> Any:
    """Return the answer to a ListOffsets with a partition for each error."""
    kind = response_class(messages.LIST_OFFSETS, 11)
    row, rows = (part(kind, f"ListOffsets{name}Response") for name in ("Partition", "Topic"))
    partitions = tuple(
        row(partition_index=index, error_code=error) for index, error in enumerate(errors)
    )
    return kind(throttle_time=timedelta(0), topics=(rows(name="t", partitions=partitions),))


def _step(*errors: ErrorCode) -> Step:
    good = _offsets(*(ErrorCode.none for _ in errors))
    answer = answer_frame(_offsets(*errors))
    request = frame(list_offsets({"t": range(len(errors))}))
    return Step(request, answer, len(answer), error_positions(good))


@pytest.fixture
def load() -> Load:
    """The generator."""
    return Load()


@pytest.fixture
def answering(load: Load) -> Callable[..., dict[str, Any]]:
    """A function that plays steps against a server that has their answers."""

    def play(*steps: Step, **options: object) -> dict[str, Any]:
        script = Script(steps, inflight=3)
        with load.running("answers", answer_frames([script, script])) as (_, line):
            port = json.loads(line)["port"]
            return load.run(
                "play", play_frames([script, script]), port=port, warmup=0, count=300, **options
            )

    return play


def test_every_error_code_of_an_answer_is_found() -> None:
    """Where a partition's code stands, the answer with an error differs from the good one."""
    good = answer_frame(_offsets(ErrorCode.none, ErrorCode.none, ErrorCode.none))
    positions = error_positions(_offsets(ErrorCode.none, ErrorCode.none, ErrorCode.none))

    assert len(positions) == 3
    for index, position in enumerate(positions):
        errors = [ErrorCode.none] * 3
        errors[index] = ErrorCode.not_leader_or_follower
        bad = answer_frame(_offsets(*errors))
        assert bad == good[:position] + b"\0\x06" + good[position + 2 :]


def test_the_part_that_was_refused_is_named() -> None:
    """A refusal is found however deep it is."""
    refused = find_refusal(_offsets(ErrorCode.none, ErrorCode.offset_not_available))

    assert refused.partition_index == 1
    assert find_refusal(_offsets(ErrorCode.none)) is None


@pytest.mark.parametrize("step", [1, 100, (1 << 31) - 5])
def test_a_raised_sequence_keeps_its_batch_whole(step: int) -> None:
    """The flips give the CRC of the batch with the next sequence, also where it wraps."""
    batch = with_producer(batch_of(0, 100, 1_700_000_000_000), 7, 0, 12)
    data = b"before" + batch + b"behind"
    (patch,) = sequence_patches(data, [batch], [step])

    raised = (12 + step) & 0x7FFF_FFFF
    crc = int.from_bytes(data[patch.crc_at : patch.crc_at + 4], "big")
    for bit in range(32):
        crc ^= patch.flips[bit] if (12 ^ raised) >> bit & 1 else 0

    expected = with_producer(batch, 7, 0, raised)
    assert data[patch.at : patch.at + 4] == (12).to_bytes(4, "big")
    assert crc.to_bytes(4, "big") == expected[17:21]


@needs_compiler
def test_frames_of_several_sizes_are_played_in_turn(
    answering: Callable[..., dict[str, Any]],
) -> None:
    """Every answer is checked against the request that it is to, by its correlation id."""
    got = answering(_step(ErrorCode.none), _step(*[ErrorCode.none] * 5), _step(ErrorCode.none))

    sizes = [len(_step(*[ErrorCode.none] * count).answer) for count in (1, 5, 1)]
    assert 300 <= got["requests"] < 310
    assert got["errors"] == 0
    assert abs(got["bytes"] - got["requests"] * sum(sizes) / 3) < 10 * max(sizes)


@needs_compiler
def test_answers_longer_than_a_buffer_are_whole(answering: Callable[..., dict[str, Any]]) -> None:
    """Answers of hundreds of kilobytes come in many pieces."""
    step = _step(*[ErrorCode.none] * 10_000)
    assert len(step.answer) > 200_000

    assert answering(step)["requests"] >= 300


@needs_compiler
def test_a_refusal_of_the_last_partition_is_an_error(
    answering: Callable[..., dict[str, Any]],
) -> None:
    """A broker that answers with an error code anywhere is not measured."""
    with pytest.raises(RuntimeError, match=r"API 2 version 11 has an error code.*error code 6"):
        answering(_step(ErrorCode.none, ErrorCode.none, ErrorCode.not_leader_or_follower))


@needs_compiler
def test_an_answer_of_another_size_is_an_error(answering: Callable[..., dict[str, Any]]) -> None:
    """An answer as good as the rehearsal's is as long as it was."""
    step = _step(ErrorCode.none)
    longer = answer_frame(_offsets(ErrorCode.none, ErrorCode.none))

    with pytest.raises(RuntimeError, match="is of another size"):
        answering(Step(step.frame, longer, len(step.answer), step.checks))


@needs_compiler
def test_a_tolerated_refusal_is_not_counted(load: Load) -> None:
    """The client asks again: of two requests in turn the one that is served counts."""
    steps = [_step(ErrorCode.none), _step(ErrorCode.coordinator_load_in_progress)]
    script = Script(steps)
    with load.running("answers", answer_frames([script])) as (_, line):
        options = {"port": json.loads(line)["port"], "tolerate": 14, "warmup": 0, "count": 50}
        got = load.run("play", play_frames([script]), **options)

    assert got["requests"] == 50
    assert got["bytes"] == 50 * len(steps[0].answer)


def test_messages_are_made_from_plain_values() -> None:
    """Nested messages are dictionaries, one or several of them; null stays null."""
    asked = message(
        messages.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": "t"}],
        response_partition_limit=5,
        cursor={"topic_name": "t", "partition_index": 3},
    )
    everything = message(messages.DESCRIBE_LOG_DIRS, topics=None)

    assert (asked.topics[0].name, asked.cursor.partition_index) == ("t", 3)
    assert everything.topics is None
