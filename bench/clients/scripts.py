"""Scripts for ``load play``: the frames that a connection sends again and again, and their answers.

A script is written as big-endian numbers of four bytes: requests in flight, the first counter, the
number of steps. A step is the sizes of its frame and of the answer (0: any), the numbers of checks
and patches, the frame, then those. A check is where an error code stands in the answer. A patch is
a kind, where in the frame its number stands, by how much it rises, where the CRC of its batch
stands, and what each bit of the number does to that CRC.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import crc32c
from kio.schema.errors import ErrorCode

from bench.connection import answer_frame, frame, read_answer
from bench.frames import Frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.connection import Connection

_COUNTER: Final = 1
_SEQUENCE: Final = 2
_FETCH: Final = 1
_CONSUMER_GROUP_HEARTBEAT: Final = 68
_LIST_GROUPS: Final = 16
_ANY_SIZE: Final = frozenset({_FETCH, _LIST_GROUPS, _CONSUMER_GROUP_HEARTBEAT})
"""APIs whose answers are not of one size: only their first error code stands at one place."""
_BASE_SEQUENCE_AT: Final = 53
_COUNT_AT: Final = 57
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_PRODUCER_ID_AT: Final = 43


@dataclass(frozen=True, slots=True)
class Patch:
    """A number of a frame that differs each time."""

    at: int
    step: int = 0
    crc_at: int = 0
    flips: tuple[int, ...] = ()

    def written(self) -> bytes:
        """Return it as the generator reads it."""
        kind = _SEQUENCE if self.flips else _COUNTER
        numbers = (kind, self.at, self.step, self.crc_at, *self.flips)
        return struct.pack(f">{len(numbers)}I", *numbers)


@dataclass(frozen=True, slots=True)
class Step:
    """A frame, what is checked of the answer, and the answer that a rehearsal got."""

    frame: bytes
    answer: bytes
    answer_size: int
    checks: tuple[int, ...]
    patches: tuple[Patch, ...] = ()

    def written(self, number: int) -> bytes:
        """Return it as the generator reads it, with its number as the correlation id."""
        sizes = (len(self.frame), self.answer_size, len(self.checks), len(self.patches))
        return b"".join(
            (
                struct.pack(">4I", *sizes),
                _numbered(self.frame, 8, number),
                struct.pack(f">{len(self.checks)}I", *self.checks),
                *(patch.written() for patch in self.patches),
            )
        )


@dataclass(frozen=True, slots=True)
class Script:
    """Requests that one connection sends."""

    steps: Sequence[Step]
    inflight: int = 1
    counter: int = 0


def play_frames(scripts: Iterable[Script]) -> Frames:
    """Return the scripts as ``load play`` reads them."""
    parts, number, count = [], 0, 0
    for script in scripts:
        parts.append(struct.pack(">3I", script.inflight, script.counter, len(script.steps)))
        for step in script.steps:
            parts.append(step.written(number))
            number += 1
        count += 1
    return Frames(data=count.to_bytes(4, "big") + b"".join(parts), positions={})


def answer_frames(scripts: Iterable[Script]) -> Frames:
    """Return the answers as ``load answers`` reads them."""
    answers = (step.answer for script in scripts for step in script.steps)
    data = b"".join(_numbered(answer, 4, number) for number, answer in enumerate(answers))
    return Frames(data=data, positions={})


def rehearse(connection: Connection, request: Any, patches: Sequence[Patch] = ()) -> Step:
    """Ask once, see to it that nothing is refused, and return the step.

    Raises:
        RuntimeError: The answer has an error code.
    """
    data = frame(request)
    body = connection.exchange(data)
    answer = read_answer(type(request), body)
    refusal = find_refusal(answer)
    if refusal is not None:
        raise RuntimeError(f"{type(request).__name__} was refused: {refusal}")
    return step_of(request, data, len(body).to_bytes(4, "big") + body, answer, patches)


def step_of(
    request: Any, data: bytes, received: bytes, answer: Any, patches: Sequence[Patch] = ()
) -> Step:
    """Return the step of a request whose answer is good."""
    is_any_size = type(request).__api_key__ in _ANY_SIZE
    checks = error_positions(answer, first_only=is_any_size)
    return Step(data, received, 0 if is_any_size else len(received), checks, tuple(patches))


def find_refusal(answer: Any) -> Any:
    """Return the innermost part of an answer that has an error code, else None."""
    if isinstance(answer, tuple):
        return next((found for each in answer if (found := find_refusal(each)) is not None), None)
    if not dataclasses.is_dataclass(answer):
        return None
    for each in dataclasses.fields(answer):
        value = getattr(answer, each.name)
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                return answer
        elif (found := find_refusal(value)) is not None:
            return found
    return None


def error_positions(answer: Any, *, first_only: bool = False) -> tuple[int, ...]:
    """Return where the error codes of a good answer stand in its frame."""
    good, bad = answer_frame(answer), answer_frame(_refused(answer))
    differ = [at for at in range(len(good)) if good[at] != bad[at]]
    positions = tuple(differ[::2])  # the code is -1: both bytes differ
    return positions[:1] if first_only else positions


def _refused(part: Any) -> Any:
    """Return a part of an answer with every error code -1."""
    if isinstance(part, tuple):
        return tuple(_refused(each) for each in part)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        if isinstance(value, ErrorCode):
            changes[each.name] = ErrorCode.unknown_server_error
        elif isinstance(value, tuple) or dataclasses.is_dataclass(value):
            changes[each.name] = _refused(value)
    return dataclasses.replace(part, **changes)


def counter_patch(one: Any, other: Any, client: str | None = None) -> Patch:
    """Return the patch of the number of four bytes that two requests differ in alone."""
    first, second = frame(one, client), frame(other, client)
    differ = [at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    return Patch(differ[-1] - 3)


def sequence_patches(data: bytes, batches: Iterable[bytes], steps: Iterable[int]) -> list[Patch]:
    """Return patches for the batches of a frame: how far each sequence rises in a cycle."""
    patches, start = [], 0
    for batch, step in zip(batches, steps, strict=True):
        start = data.index(batch, start)
        if step:
            at = start + _BASE_SEQUENCE_AT
            patches.append(Patch(at, step, start + _CRC_AT, _flips(len(batch))))
        start += len(batch)
    return patches


def _flips(size: int) -> tuple[int, ...]:
    """Return what each bit of the base sequence does to the CRC of a batch of that size."""
    nothing = bytearray(size - _CRC_FROM)
    zero = crc32c.crc32c(bytes(nothing))
    place = _BASE_SEQUENCE_AT - _CRC_FROM
    found = []
    for bit in range(32):
        nothing[place : place + 4] = (1 << bit).to_bytes(4, "big")
        found.append(crc32c.crc32c(bytes(nothing)) ^ zero)
    return tuple(found)


def with_producer(batch: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """Return a batch as a producer sends it."""
    changed = bytearray(batch)
    struct.pack_into(">qhi", changed, _PRODUCER_ID_AT, producer_id, epoch, sequence)
    changed[_CRC_AT:_CRC_FROM] = crc32c.crc32c(bytes(changed[_CRC_FROM:])).to_bytes(4, "big")
    return bytes(changed)


def count_of(batch: bytes) -> int:
    """Return the number of records of a batch."""
    return int.from_bytes(batch[_COUNT_AT : _COUNT_AT + 4], "big")


def producer_of(batch: bytes) -> tuple[int, int, int]:
    """Return producer id, epoch and base sequence of a batch."""
    found: tuple[int, int, int] = struct.unpack_from(">qhi", batch, _PRODUCER_ID_AT)
    return found


def _numbered(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + number.to_bytes(4, "big") + data[at + 4 :]
