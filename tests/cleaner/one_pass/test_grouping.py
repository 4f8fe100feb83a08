"""Which segments become one: sizes before cleaning, both indexes, the span of offsets."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from siltstone.cleaner.one_pass.grouping import MAX_SPAN, group_segments
from siltstone.config.topic import TopicConfig


@dataclass(eq=False)
class FakeSegment:
    """Values that grouping asks of a segment; indexes are ranges of as many entries."""

    base_offset: int
    size: int = 100
    offset_entries: int = 1
    time_entries: int = 1
    name: str = field(init=False, default="")

    def offset_index(self) -> range:
        """Return its offset index."""
        return range(self.offset_entries)

    def time_index(self) -> range:
        """Return its time index."""
        return range(self.time_entries)


def bases(
    segments: list[Any],
    *,
    end_offset: int = 1 << 40,
    first_uncleanable_offset: int = 1 << 30,
    segment_bytes: int = 250,
    segment_index_bytes: int = 1 << 20,
) -> list[list[int]]:
    """Group, and return the bases by group."""
    groups = group_segments(
        segments,
        TopicConfig(segment_bytes=segment_bytes, segment_index_bytes=segment_index_bytes),
        end_offset=end_offset,
        first_uncleanable_offset=first_uncleanable_offset,
    )
    return [[segment.base_offset for segment in group] for group in groups]


def test_packs_greedily_in_order() -> None:
    """As many as fit into segment.bytes, which may be reached."""
    segments = [FakeSegment(base) for base in (0, 10, 20, 30, 40)]

    assert bases(segments) == [[0, 10], [20, 30], [40]]
    assert bases(segments, segment_bytes=300) == [[0, 10, 20], [30, 40]]


def test_a_large_segment_is_alone() -> None:
    """One that is larger than segment.bytes is a group, and so is what follows it."""
    segments = [FakeSegment(0), FakeSegment(10, 1000), FakeSegment(20)]

    assert bases(segments) == [[0], [10], [20]]


def test_ends_at_the_end_of_the_map() -> None:
    """Only segments that begin below the end offset are cleaned; the last may reach beyond."""
    segments = [FakeSegment(base) for base in (0, 10, 20)]

    assert bases(segments, end_offset=20) == [[0, 10]]
    assert bases(segments, end_offset=21) == [[0, 10], [20]]
    assert bases(segments, end_offset=0) == []


@pytest.mark.parametrize(("offset_entries", "time_entries"), [(6, 1), (1, 4)])
def test_indexes_have_to_fit(offset_entries: int, time_entries: int) -> None:
    """Entries of 8 and of 12 bytes, both against segment.index.bytes."""
    segments = [FakeSegment(base, 1, offset_entries, time_entries) for base in (0, 10, 20)]

    assert bases(segments, segment_index_bytes=96) == [[0, 10], [20]]
    assert bases(segments, segment_index_bytes=95) == [[0], [10], [20]]


def test_offsets_have_to_fit() -> None:
    """A group spans 2^31 - 1 offsets, as told by the base of the segment that follows."""
    segments = [FakeSegment(0, 1), FakeSegment(10, 1), FakeSegment(MAX_SPAN + 1, 1)]

    assert bases(segments, first_uncleanable_offset=1 << 40) == [[0, 10], [MAX_SPAN + 1]]
    segments[2].base_offset += 1
    assert bases(segments, first_uncleanable_offset=1 << 40) == [[0], [10], [MAX_SPAN + 2]]


def test_empty_segments_join_whatever_their_offsets() -> None:
    """So an empty one is not left behind every 2^31 offsets."""
    segments = [FakeSegment(0, 1), FakeSegment(1 << 32, 0)]

    assert bases(segments, first_uncleanable_offset=1 << 40) == [[0, 1 << 32]]


def test_the_last_one_ends_at_the_first_uncleanable_offset() -> None:
    """Its span is estimated from there, even if the map ended before."""
    segments = [FakeSegment(0, 1), FakeSegment(10, 1)]

    assert bases(segments, first_uncleanable_offset=MAX_SPAN + 1) == [[0, 10]]
    assert bases(segments, first_uncleanable_offset=MAX_SPAN + 2) == [[0], [10]]
