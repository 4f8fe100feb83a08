"""Journals are read back in slices, whatever lies in them."""

from pathlib import Path

import pytest

from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.build import build_batch, frame_batch
from siltstone.protocol.records.journal import Entry
from siltstone.protocol.records.record import Record
from siltstone.storage.producers.checks import Origin
from tests.support.logs import validated
from tests.support.running import running

COUNT = 20_000
MOST = 1000


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("broken", [0, 1])
async def test_a_compressed_batch_is_applied_in_slices(
    codec: int, broken: int, tmp_path: Path
) -> None:
    """All of its records, or those before one that is missing; no slice has many."""
    records = [Record(number, 0, b"%d" % number, b"v" * 100) for number in range(COUNT)]
    batch = build_batch(records, codec=codec)
    slices: list[list[Entry]] = []
    async with running(tmp_path, "offsets.topic.num.partitions=1") as home:
        journal = home.groups.journal
        await journal.ensure_created()
        log = home.topics.logs[OFFSETS_TOPIC, 0]
        if broken:
            batch = frame_batch(bytes(batch[61:]), COUNT + 1, codec=codec)
        log.append(validated(batch), Origin.COORDINATOR)
        journal.append(0, [(b"last", b"v")])
        journal.begin_loading()
        await journal.load(lambda _, entries: slices.append(entries), lambda _: None)
        skipped = journal.skipped

    found = [entry.key for entries in slices for entry in entries]
    assert found == [*(b"%d" % number for number in range(COUNT)), b"last"]
    assert max(map(len, slices)) <= MOST
    assert skipped == broken
