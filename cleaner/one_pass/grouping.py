"""Chooses the segments that become one (Kafka: ``Cleaner.groupSegmentsBySize``).

It goes by the sizes before cleaning: segments shrink in one pass and merge in the next pass.
"""

from collections.abc import Sequence, Sized
from typing import Final, Protocol, TypeVar

from siltstone.config.topic import TopicConfig

MAX_SPAN: Final = (1 << 31) - 1
"""The largest offset of a segment relative to its base."""


class Segment(Protocol):
    """The fields of a segment that grouping needs; a ``ReadableSegment`` has them."""

    @property
    def base_offset(self) -> int:
        """Return the segment's base offset."""

    @property
    def size(self) -> int:
        """Return the bytes of its ``.log``."""

    def offset_index(self) -> Sized:
        """Return its offset index; an entry has 8 bytes."""

    def time_index(self) -> Sized:
        """Return its time index; an entry has 12 bytes."""


AnySegment = TypeVar("AnySegment", bound=Segment)


def group_segments(
    segments: Sequence[AnySegment],
    config: TopicConfig,
    *,
    end_offset: int,
    first_uncleanable_offset: int,
) -> list[tuple[AnySegment, ...]]:
    """Pack the segments that begin below ``end_offset`` into groups that fit one segment.

    A group is limited by ``segment.bytes``, by ``segment.index.bytes`` for either index, and by the
    span of its offsets. A segment ends where the next one begins.
    """
    chosen = [segment for segment in segments if segment.base_offset < end_offset]
    bounds = [segment.base_offset for segment in chosen[1:]] + [first_uncleanable_offset]
    groups: list[list[AnySegment]] = []
    sums = (0, 0, 0)
    # strict=False: even without segments there is one bound.
    for segment, bound in zip(chosen, bounds, strict=False):
        sizes = (segment.size, 8 * len(segment.offset_index()), 12 * len(segment.time_index()))
        joined = tuple(map(sum, zip(sums, sizes, strict=True)))
        limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        if (
            groups
            and all(size <= limit for size, limit in zip(joined, limits, strict=True))
            and (not segment.size or bound - 1 - groups[-1][0].base_offset <= MAX_SPAN)
        ):
            groups[-1].append(segment)
            sums = (joined[0], joined[1], joined[2])
        else:
            groups.append([segment])
            sums = sizes
    return [tuple(group) for group in groups]
