"""Chooses the segments that become one (Kafka: ``Cleaner.groupSegmentsBySize``).

It goes by the sizes before cleaning: segments shrink in one pass and merge in the next pass.
"""

from collections.abc import Sequence
from typing import Final

from siltstone.config.topic import TopicConfig
from siltstone.storage.segment.readable import ReadableSegment

MAX_SPAN: Final = (1 << 31) - 1
"""The largest offset of a segment relative to its base."""


def group_segments(
    segments: Sequence[ReadableSegment],
    config: TopicConfig,
    *,
    end_offset: int,
    first_uncleanable_offset: int,
) -> list[tuple[ReadableSegment, ...]]:
    """Pack the segments that begin below ``end_offset`` into groups that fit one segment.

    A group is limited by ``segment.bytes``, by ``segment.index.bytes`` for either index, and by the
    span of its offsets. A segment ends where the next one begins.
    """
    chosen = [segment for segment in segments if segment.base_offset < end_offset]
    bounds = [segment.base_offset for segment in chosen[1:]] + [first_uncleanable_offset]
    groups: list[list[ReadableSegment]] = []
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
