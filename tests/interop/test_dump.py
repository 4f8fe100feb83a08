"""Kafka's dump tool over every file that our broker wrote."""

import shutil
from pathlib import Path

import pytest

from tests.interop.conftest import Broker, partition_folders
from tests.support.broker import SiltstoneProcess
from tests.support.dump import complaints
from tests.support.folders import batches, segments
from tests.support.kafka import KafkaTools

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(180)]


def test_folders_have_had_a_life(lived_in: Broker) -> None:
    """The folders hold what the dump is to judge: rolls, a cut front, every codec, snapshots."""
    mixed, keyed, stamped, packed, limited, beheaded = partition_folders(lived_in)

    if isinstance(lived_in, SiltstoneProcess):
        assert all(len(segments(folder)) > 2 for folder in (mixed, keyed, stamped))
        assert segments(limited)[0].stem != "0" * 20
        assert segments(beheaded)[0].stem in {"0" * 20, f"{300:020}"}
    assert {batch.codec for batch in batches(mixed)} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {batch.codec for batch in batches(packed)} == {"zstd"}
    assert len({batch.producer_id for batch in batches(stamped)}) > 3
    assert len({batch.leader_epoch for batch in batches(keyed)}) <= 2
    assert list(mixed.glob("*.snapshot"))


def test_dump_finds_nothing(lived_in: Broker, kafka_tools: KafkaTools) -> None:
    """No complaint about logs, indexes, time indexes or snapshots after all that happened."""
    assert complaints(kafka_tools, partition_folders(lived_in)) == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
def test_dump_would_find_one_flipped_bit(
    lived_in: Broker, kafka_tools: KafkaTools, tmp_path: Path, suffix: str
) -> None:
    """One flipped bit in any file is found: the silence above means something."""
    mixed = partition_folders(lived_in)[0]
    copy = tmp_path / mixed.name
    shutil.copytree(mixed, copy)
    for path in copy.iterdir():
        if path.name.partition(".")[0] > segments(copy)[0].stem and path.suffix != ".snapshot":
            path.unlink()
    target = min(each for each in copy.glob(f"*{suffix}") if each.stat().st_size)
    damaged = bytearray(target.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    target.write_bytes(damaged)

    assert complaints(kafka_tools, [copy]) != []
