"""A start with folders and catalogues that do not agree, and what it says about it."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.http.health import Health, LoopWatch
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.topics.settings import metadata_log
from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.names import uuid_text
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from siltstone.storage.directory.catalog import FILE_NAME
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from tests.support.appending import append
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KAFKAS = Path(__file__).parents[2] / "data" / "settings"


async def _make(root: Path, partitions: int = 2) -> UUID:
    """Leave a topic `orders` with settings of its own and 7 records in partition 0."""
    home = await ServicesOnDisk(root).open()
    topic = await home.services.topics.create("orders", partitions, {"retention.ms": "-1"})
    append(home.services.topics.logs["orders", 0], 7)
    await home.services.producer_ids.allocate()
    await home.close()
    return topic.id


async def test_a_lost_catalogue_is_made_anew_from_the_folders(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ids, partitions and records are kept; that settings are lost is said once."""
    topic_id = await _make(tmp_path)
    (tmp_path / "data-0" / FILE_NAME).unlink()
    home = await ServicesOnDisk(tmp_path).open()
    topics = home.services.topics

    assert (topics.topics["orders"].id, topics.topics["orders"].partitions) == (topic_id, 2)
    assert topics.logs["orders", 0].log_end_offset == 7
    assert topics.topics["orders"].overrides == {}
    assert sum("settings of their own are lost" in line for line in caplog.messages) == 1
    assert await home.services.producer_ids.allocate() >= home.clock.now_ms()
    await home.close()
    caplog.clear()
    await (await ServicesOnDisk(tmp_path).open()).close()
    assert not [line for line in caplog.messages if "adopted" in line]


async def test_a_folder_that_was_put_there_is_adopted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With one line in the log, and under its own name."""
    topic_id = await _make(tmp_path / "a")
    home = await ServicesOnDisk(tmp_path / "b").open()
    await home.services.topics.create("other", 1, {})
    await home.close()
    shutil.copytree(tmp_path / "a" / "data-0" / "orders-0", tmp_path / "b" / "data-0" / "orders-0")
    home = await ServicesOnDisk(tmp_path / "b").open()

    assert set(home.services.topics.topics) == {"orders", "other"}
    assert home.services.topics.by_id[topic_id.bytes].partitions == 1
    assert home.services.topics.logs["orders", 0].log_end_offset == 7
    assert (
        f"topic adopted from its folders topic=orders id={uuid_text(topic_id)} partitions=1"
        in caplog.messages
    )
    await home.close()


async def test_a_partition_with_records_that_the_catalogue_lacks_is_adopted(
    tmp_path: Path,
) -> None:
    """So is an empty one beside it: no growth that was refused has left both."""
    await _make(tmp_path)
    data = tmp_path / "data-0"
    shutil.copytree(data / "orders-1", data / "orders-2")
    shutil.copytree(data / "orders-0", data / "orders-3")
    home = await ServicesOnDisk(tmp_path).open()
    topic = home.services.topics.topics["orders"]

    assert [each and each.log_end_offset for each in topic.logs] == [7, 0, 0, 7]
    await home.close()


async def test_a_partition_that_apache_kafka_added_is_adopted_without_records(
    tmp_path: Path,
) -> None:
    """As after the way back to Kafka, where the topic grew; one that Kafka does not know goes."""
    topic_id = await _make(tmp_path)
    data = tmp_path / "data-0"
    for number in (2, 3, 4):
        shutil.copytree(data / "orders-1", data / f"orders-{number}")
    values = [b"\x01\x03\x02" + number.to_bytes(4) + topic_id.bytes + b"\0" for number in range(4)]
    records = [Record(number, 0, None, value) for number, value in enumerate(values)]
    (data / metadata_log.FOLDER).mkdir()
    (data / metadata_log.FOLDER / f"{0:020d}.log").write_bytes(build_batch(records))
    home = await ServicesOnDisk(tmp_path).open()

    assert home.services.topics.topics["orders"].partitions == 4
    assert not (data / "orders-4").exists()
    await home.close()


async def test_a_missing_folder_is_made_anew_and_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic is whole again, with its id; an error says that the partition is empty."""
    topic_id = await _make(tmp_path)
    shutil.rmtree(tmp_path / "data-0" / "orders-0")
    home = await ServicesOnDisk(tmp_path).open()
    log = home.services.topics.logs["orders", 0]

    assert (log.topic_id, log.log_end_offset) == (topic_id, 0)
    assert log.config.retention_ms == -1
    assert [each.levelname for each in caplog.records if "EMPTY" in each.getMessage()] == ["ERROR"]
    await home.close()


async def test_a_folder_of_another_topic_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not served, not emptied, not renamed; the other partitions are served."""
    await _make(tmp_path)
    folder = tmp_path / "data-0" / "orders-0"
    PartitionMetadata(topic_id=UUID(int=99)).write(folder)
    size = (folder / f"{0:020d}.log").stat().st_size
    home = await ServicesOnDisk(tmp_path).open()
    topic = home.services.topics.topics["orders"]

    assert topic.logs[0] is None
    assert ("orders", 0) not in home.services.topics.logs
    assert ("orders", 1) in home.services.topics.logs
    assert all(each.topic_partition != ("orders", 0) for each in home.services.logs.all_logs())
    assert sum("left alone" in line for line in caplog.messages) == 1
    await home.close()
    assert (folder / f"{0:020d}.log").stat().st_size == size


async def test_a_folder_without_an_id_gets_the_topics(tmp_path: Path) -> None:
    """A power failure right after the folder was made may have left it so."""
    topic_id = await _make(tmp_path)
    (tmp_path / "data-0" / "orders-1" / "partition.metadata").write_bytes(b"")
    home = await ServicesOnDisk(tmp_path).open()

    assert home.services.topics.logs["orders", 1].topic_id == topic_id
    found = PartitionMetadata.read(tmp_path / "data-0" / "orders-1")
    assert found is not None
    assert found.topic_id == topic_id
    await home.close()


async def test_a_folder_that_a_failed_creation_left_is_removed(tmp_path: Path) -> None:
    """It has neither an id nor a record, and would prevent that the topic is created."""
    await _make(tmp_path)
    (tmp_path / "data-0" / "pears-0").mkdir()
    home = await ServicesOnDisk(tmp_path).open()

    assert home.services.topics.topics.keys() == {"orders"}
    topic = await home.services.topics.create("pears", 1, {})
    assert topic.logs[0] is not None
    await home.close()


async def test_a_folder_with_files_of_others_is_left_alone(tmp_path: Path) -> None:
    """It has the name of a partition, but no creation has left it."""
    await _make(tmp_path)
    notes = tmp_path / "data-0" / "notes-7"
    notes.mkdir()
    (notes / "report.txt").write_text("ours")
    home = await ServicesOnDisk(tmp_path).open()
    await home.close()

    assert (notes / "report.txt").read_text() == "ours"


async def test_an_empty_partition_of_a_topic_without_an_id_is_left_alone(tmp_path: Path) -> None:
    """Before 2.8 Apache Kafka gave topics no ids; its folders belong together."""
    await _make(tmp_path)
    data = tmp_path / "data-0"
    (data / FILE_NAME).unlink()
    for name in ("orders-0", "orders-1"):
        (data / name / "partition.metadata").unlink()
    home = await ServicesOnDisk(tmp_path).open()

    assert not home.services.topics.topics
    await home.close()
    assert {"orders-0", "orders-1"} <= {each.name for each in data.iterdir()}


async def test_partitions_in_several_directories_are_one_topic(tmp_path: Path) -> None:
    """Only the first directory has the catalogue; all have folders."""
    home = await ServicesOnDisk(tmp_path, directories=2).open()
    await home.services.topics.create("orders", 4, {})
    assert {log.directory.path.name for log in home.services.topics.logs.values()} == {
        "data-0",
        "data-1",
    }
    await home.close()
    assert not (tmp_path / "data-1" / FILE_NAME).exists()
    again = await ServicesOnDisk(tmp_path, directories=2).open()

    assert again.services.topics.topics["orders"].partitions == 4
    await again.close()


async def test_a_new_folder_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The very first start is no loss."""
    await (await ServicesOnDisk(tmp_path).open()).close()

    assert not [each for each in caplog.records if each.name.startswith("siltstone.broker.topics.")]


async def test_a_damaged_partition_is_offline(tmp_path: Path) -> None:
    """Metadata, health, metrics and errors name it; it is not made again, and can be deleted."""
    topic_id = await _make(tmp_path)
    folder = tmp_path / "data-0" / "orders-0"
    (folder / "7.log").write_bytes(b"")
    (tmp_path / "data-0" / FILE_NAME).unlink()  # the folder names the topic as before
    home = await ServicesOnDisk(tmp_path).open()
    topics = home.services.topics
    answer = await ask(home, 3, request(3, 13))

    (topic,) = answer.topics
    assert topic.topic_id == topic_id
    assert [(each.leader_id, each.offline_replicas) for each in topic.partitions] == [
        (-1, (1,)),
        (1, ()),
    ]
    with pytest.raises(KafkaStorageError):
        topics.find_log("orders", 0)
    page = Health(LoopWatch(home.clock), [], lambda: home.services.logs.set_aside)
    told = await page.answer(HttpRequest(method="GET", path="/healthz"))
    assert told.status == 200
    assert isinstance(told.body, bytes)
    assert b"partition orders-0 is set aside and not served" in told.body
    await topics.delete(topics.topics["orders"])
    assert not folder.exists()
    again = await topics.create("orders", 1, {})
    assert again.logs[0] is not None
    await home.close()


async def test_settings_come_out_of_apache_kafkas_metadata_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in force at once and stay; each is told, and what is not obeyed is named."""
    caplog.set_level("INFO")
    shutil.copytree(KAFKAS, tmp_path / "data-0")
    home = await ServicesOnDisk(tmp_path).open()
    topics = home.services.topics

    kept = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25"}
    assert topics.topics["customers"].overrides == kept
    assert topics.topics["orders"].overrides == {
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "86400000",
    }
    assert topics.logs["customers", 0].config.cleanup_policy == ("compact",)
    assert topics.logs["orders", 1].config.retention_ms == 86_400_000
    assert (
        "topic has the settings of Apache Kafka's metadata log topic=orders "
        "set='message.timestamp.type=LogAppendTime retention.ms=86400000' "
        "left_out='unclean.leader.election.enable'" in caplog.messages
    )
    assert not [line for line in caplog.messages if "settings of their own are lost" in line]
    await home.close()
    shutil.rmtree(tmp_path / "data-0" / "__cluster_metadata-0")
    home = await ServicesOnDisk(tmp_path).open()
    assert home.services.topics.topics["customers"].overrides == kept
    await home.close()


async def test_the_size_of_segments_that_apache_kafkas_tests_set_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """internal.segment.bytes counts here, so it comes along."""
    own = {"internal.segment.bytes": "2000"}
    shutil.copytree(KAFKAS, tmp_path / "data-0")
    real = metadata_log.read_topic_settings
    monkeypatch.setattr(
        metadata_log,
        "read_topic_settings",
        lambda directories: dict.fromkeys(real(directories), own),
    )
    home = await ServicesOnDisk(tmp_path).open()

    assert home.services.topics.topics["orders"].overrides == own
    assert home.services.topics.logs["orders", 1].config.segment_bytes == 2000
    await home.close()


async def test_a_topic_with_another_id_has_no_settings_of_the_metadata_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It only has the name of one that Apache Kafka knew."""
    shutil.copytree(KAFKAS, tmp_path / "data-0")
    PartitionMetadata(topic_id=UUID(int=99)).write(tmp_path / "data-0" / "customers-0")
    home = await ServicesOnDisk(tmp_path).open()

    assert home.services.topics.topics["customers"].overrides == {}
    assert home.services.topics.topics["again"].overrides == {"segment.ms": "7200000"}
    assert any("settings of their own are lost topics=1" in line for line in caplog.messages)
    await home.close()
