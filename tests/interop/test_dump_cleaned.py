"""Kafka's dump tool over what our cleaner wrote: every codec, transactions, tombstones, indexes."""

from pathlib import Path

import pytest

from siltstone.protocol.records.build import ABORT, COMMIT
from tests.support.batches import TIMESTAMP
from tests.support.dump import complaints_about_cleaned
from tests.support.kafka import KafkaTools
from tests.support.passes import CompactedFolder

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(180)]


def live(folder: CompactedFolder, round_number: int) -> None:
    """Write what a cleaner has to thin out, in segments of its own."""
    first = 100 * round_number
    for number in range(60):
        folder.write(
            *((b"key-%d" % (number * step % 23), b"%d" % number * 9) for step in (1, 2, 3)),
            (b"key-%d" % (number % 7), None if number % 10 == 0 else b"v"),
            codec=number % 5,
            timestamp=TIMESTAMP + first + number,
        )
        if number % 6 == 5:
            sequence = (first + number) * 2
            folder.write_transactional(
                9, (b"key-9", b"%d" % number), (b"x", b"y"), sequence=sequence
            )
            folder.write_marker(9, ABORT if number % 12 == 5 else COMMIT)
    folder.roll()


def test_dump_finds_nothing(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    """No complaint about cleaned logs, their indexes and their aborted transactions."""
    folder = CompactedFolder(tmp_path, segment_bytes=4000, index_interval_bytes=200)
    for round_number in range(3):
        live(folder, round_number)
        folder.clean()
        folder.clock.advance(700)
    folder.settle()
    folder.pass_time(folder.config.file_delete_delay_ms)
    codecs = {header.codec for header in folder.headers()}
    folder.close()

    assert list(folder.path.glob("*.txnindex"))
    assert codecs == set(range(5))
    assert complaints_about_cleaned(kafka_tools, [folder.path]) == []
