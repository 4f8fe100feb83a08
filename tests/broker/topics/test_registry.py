"""Topics come and go as a whole, for everybody at once, whatever fails in between."""

import asyncio
import errno
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.broker.fetching.watching import Watch, WatchGroup
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.errors import (
    InvalidPartitions,
    InvalidTopic,
    KafkaStorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.storage import files
from siltstone.storage.directory.catalog import CatalogState
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.dropped_segments import RETRY_MS
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append
from tests.support.batches import make_batch
from tests.support.faults import Disk, install
from tests.support.logs import append_waiting
from tests.support.services import ServicesOnDisk


def _fill_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the disk full for the folder of that name from now on."""
    create = files.create_folder

    def create_folder(path: Path) -> None:
        if path.name == name:
            raise OSError(28, "No space left on device")
        create(path)

    monkeypatch.setattr(files, "create_folder", create_folder)


def _folders(home: ServicesOnDisk) -> list[str]:
    """Return the names of the partition folders that are not being deleted."""
    return sorted(
        path.name
        for root in home.paths
        for path in root.iterdir()
        if path.is_dir() and not path.name.endswith("-delete") and not path.name.startswith(".")
    )


async def test_a_new_topic_can_be_found_in_every_way(home: ServicesOnDisk) -> None:
    """By name, by id and by partition; its folders carry its id before any record."""
    topics = home.services.topics
    topic = await topics.create("orders", 2, {"retention.ms": "5"})

    assert topics.topics == {"orders": topic}
    assert topics.by_id == {topic.id.bytes: topic}
    assert [topics.logs["orders", index] for index in range(2)] == list(topic.logs)
    assert all(log is not None and log.config.retention_ms == 5 for log in topic.logs)
    found = PartitionMetadata.read(home.paths[0] / "orders-1")
    assert found is not None
    assert found.topic_id == topic.id


async def test_what_waits_is_written_before_a_topic_goes(home: ServicesOnDisk) -> None:
    """Its own batches too: no client with a batch in the same round is told that it failed."""
    topics = home.services.topics
    gone, keep = [await topics.create(name, 1, {}) for name in ("gone", "keep")]
    logs = [each.logs[0] for each in (gone, keep)]
    now_ms = home.clock.now_ms()
    batches = [append_waiting(log, make_batch(), now_ms) for log in logs if log is not None]
    await topics.delete(gone)

    assert [(each.base_offset, each.error) for each in batches] == [(0, None), (0, None)]
    assert [log.log_end_offset for log in logs if log is not None] == [1, 1]


async def test_nothing_remembers_a_deleted_topic(home: ServicesOnDisk) -> None:
    """No table has its name, its id or a partition of it, once its folders are gone."""
    topics, logs = home.services.topics, home.services.logs
    await topics.create("kept.1", 1, {"cleanup.policy": "compact"})
    gone = await topics.create("gone-1.1", 2, {"cleanup.policy": "compact"})
    for log in gone.logs:
        assert log is not None
        append(log)
    await topics.delete(gone)
    await home.writer.close()
    home.clock.advance(60_000)
    logs.deletions.run_due()
    await home.io.run(logs.background.drain)
    keys = (gone.name, "gone-1_1", gone.key, gone.id, *map(TopicPartition, [gone.name] * 2, (0, 1)))
    del gone, log

    gc.collect()
    tables = [each for each in gc.get_objects() if isinstance(each, (dict, set))]
    assert [list(each)[:3] for each in tables if any(key in each for key in keys)] == []


async def test_a_deletion_looks_at_its_own_partitions_alone(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listed the folders of all logs, once for each partition and on the loop."""
    topics = home.services.topics
    gone = await topics.create("gone", 3, {})
    monkeypatch.setattr(home.services.logs, "folder_ids", None)
    await topics.delete(gone)

    assert _folders(home) == []


async def test_of_many_that_want_a_name_one_wins(home: ServicesOnDisk) -> None:
    """The others are told that it exists, and then it does."""
    topics = home.services.topics
    version = topics.version
    outcomes = await asyncio.gather(
        *(topics.create("orders", count, {}) for count in range(1, 9)), return_exceptions=True
    )

    won = [each for each in outcomes if isinstance(each, Topic)]
    assert won == [topics.topics["orders"]]
    assert sum(isinstance(each, TopicAlreadyExists) for each in outcomes) == 7
    assert topics.version == version + 1
    assert len(_folders(home)) == won[0].partitions


async def test_topics_survive_a_crash(tmp_path: Path) -> None:
    """A topic that was answered exists after the restart, with its id and its settings."""
    home = await ServicesOnDisk(tmp_path).open()
    topic = await home.services.topics.create("orders", 3, {"cleanup.policy": "compact"})
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    found = again.services.topics.topics["orders"]

    assert (found.id, found.partitions) == (topic.id, 3)
    assert found.overrides == {"cleanup.policy": "compact"}
    assert all(log is not None and log.config.is_compacted for log in found.logs)
    await again.close()


async def test_a_deleted_topic_is_gone_and_its_name_free(home: ServicesOnDisk) -> None:
    """Its folders are renamed at once; one made again has another id and no records."""
    topics = home.services.topics
    first = await topics.create("orders", 2, {})
    append(topics.logs["orders", 0], 5)
    await topics.delete(first)
    assert not topics.topics
    assert not topics.by_id
    assert not topics.logs
    assert not _folders(home)
    second = await topics.create("orders", 1, {})

    assert second.id != first.id
    assert topics.logs["orders", 0].log_end_offset == 0


async def test_deleting_releases_who_waits(home: ServicesOnDisk) -> None:
    """A parked fetch is answered now, not at its deadline."""
    topics, waiting = home.services.topics, home.services.waiting
    topic = await topics.create("orders", 1, {})
    group = WatchGroup()
    group.changed[Watch(group, "orders", FetchPartition(0, -1, 0, -1, -1, 1000))] = None
    parked = asyncio.create_task(
        waiting.wait(group, topics.get_log, min_bytes=1, isolation_level=0, seconds=60)
    )
    await asyncio.sleep(0)
    assert waiting.count == 1
    await topics.delete(topic)

    await parked


async def test_a_topic_is_deleted_once(home: ServicesOnDisk) -> None:
    """Of two deletions the second is told that it is gone."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    outcomes = await asyncio.gather(
        topics.delete(topic), topics.delete(topic), return_exceptions=True
    )

    assert outcomes[0] is None
    assert isinstance(outcomes[1], UnknownTopicOrPartition)


async def test_creating_waits_for_deleting(home: ServicesOnDisk) -> None:
    """A name is free when its folders are gone, and a topic that wants it waits for that."""
    topics = home.services.topics
    first = await topics.create("orders", 4, {})
    _, second = await asyncio.gather(topics.delete(first), topics.create("orders", 1, {}))

    assert topics.topics["orders"] is second
    assert _folders(home) == ["orders-0"]


async def test_a_crash_while_deleting_ends_in_deletion(tmp_path: Path) -> None:
    """Folders that still have their names are not taken for a topic to adopt."""
    home = await ServicesOnDisk(tmp_path).open()
    topic = await home.services.topics.create("orders", 2, {})

    def delete(state: CatalogState) -> None:
        del state.topics["orders"]
        state.deleted |= {topic.id}

    await home.writer.commit(delete)
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()

    assert not again.services.topics.topics
    assert not _folders(again)
    await again.services.topics.create("orders", 1, {})
    await again.close()


async def test_a_full_disk_leaves_no_half_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that were made before the disk was full go again."""
    home = await ServicesOnDisk(tmp_path).open()
    _fill_disk(monkeypatch, "orders-3")
    with pytest.raises(KafkaStorageError):
        await home.services.topics.create("orders", 5, {})

    assert not home.services.topics.topics
    assert not home.services.topics.logs
    assert not _folders(home)
    assert not home.writer.state.topics
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    assert not again.services.topics.topics
    await again.close()


async def test_a_catalogue_that_cannot_be_written_changes_nothing(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating, growing, altering and deleting are refused; the topic is as it was."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {"retention.ms": "5"})

    def write(_state: CatalogState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home.catalog, "write", write)
    for refused in (
        topics.create("other", 1, {}),
        topics.add_partitions(topic, 2),
        topics.alter(topic, {"retention.ms": "6"}),
        topics.delete(topic),
    ):
        with pytest.raises(KafkaStorageError):
            await refused

    assert topics.topics == {"orders": topic}
    assert _folders(home) == ["orders-0"]
    assert topics.logs["orders", 0].config.retention_ms == 5
    assert topic.overrides == {"retention.ms": "5"}


async def test_a_refused_deletion_is_not_made_with_the_next_change(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client was told that the topic still exists."""
    topics = home.services.topics
    topic, other = [await topics.create(name, 1, {}) for name in ("orders", "other")]

    def write(_state: CatalogState) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(home.catalog, "write", write)
        with pytest.raises(KafkaStorageError):
            await topics.delete(topic)
    await topics.alter(other, {"retention.ms": "6"})

    assert home.writer.state.topics.keys() == {"orders", "other"}


async def test_added_partitions_are_of_the_same_topic(home: ServicesOnDisk) -> None:
    """Offsets of the old ones go on; the new ones begin at leader epoch 0 with its settings."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {"retention.ms": "5"})
    append(topics.logs["orders", 0], 3)
    version = topics.version
    await topics.add_partitions(topic, 3)

    assert topic.partitions == 3
    assert topics.version > version
    assert topics.logs["orders", 0].log_end_offset == 3
    added = topics.logs["orders", 2]
    assert (added.topic_id, added.leader_epoch, added.config.retention_ms) == (topic.id, 0, 5)
    assert [each and each.topic_partition for each in topic.logs] == [
        ("orders", index) for index in range(3)
    ]
    assert added is topic.logs[2]


async def test_partitions_never_become_fewer(home: ServicesOnDisk) -> None:
    """Of two requests that grow a topic at once the smaller cannot undo the greater."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    outcomes = await asyncio.gather(
        topics.add_partitions(topic, 4), topics.add_partitions(topic, 2), return_exceptions=True
    )

    assert outcomes[0] is None
    assert isinstance(outcomes[1], InvalidPartitions)
    assert home.writer.state.topics["orders"].partitions == topic.partitions == 4


async def test_partitions_that_cannot_all_be_made_are_not_made(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has as many as before, in memory, in the catalogue and on the disk."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    _fill_disk(monkeypatch, "orders-2")
    with pytest.raises(KafkaStorageError):
        await topics.add_partitions(topic, 4)

    assert topic.partitions == home.writer.state.topics["orders"].partitions == 1
    assert _folders(home) == ["orders-0"]


def _refuse(
    home: ServicesOnDisk, patch: pytest.MonkeyPatch, name: str, kind: type[Exception] = RuntimeError
) -> None:
    """Have calls for a partition's folder fail on their way to an io thread from now on."""
    run = home.io.run

    def run_others(function: Callable[..., object], *args: object) -> asyncio.Future[object]:
        if name not in map(str, args):
            return run(function, *args)
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(kind("can't start new thread"))
        return refused

    patch.setattr(home.io, "run", run_others)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
async def test_partitions_for_which_no_thread_is_left_are_not_made(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """A client that was refused finds its change neither now nor after a restart."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    with monkeypatch.context() as patch:
        _refuse(home, patch, "orders-2", kind)
        with pytest.raises(KafkaStorageError):
            await topics.add_partitions(topic, 3)
    with monkeypatch.context() as patch:
        _refuse(home, patch, "others-1", kind)
        with pytest.raises(KafkaStorageError):
            await topics.create("others", 2, {})

    assert list(home.writer.state.topics) == list(topics.topics) == ["orders"]
    assert topic.partitions == home.writer.state.topics["orders"].partitions == 1
    assert _folders(home) == ["orders-0"]


async def test_partitions_that_no_thread_could_remove_do_not_bring_a_topic_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A growth was refused, and so was its undoing; then the topic is deleted."""
    home = await ServicesOnDisk(tmp_path).open()
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    with monkeypatch.context() as patch:
        _refuse(home, patch, "orders-2")
        monkeypatch.setattr(home.cleaner, "delete", _find_no_thread)
        with pytest.raises(KafkaStorageError):
            await topics.add_partitions(topic, 3)
    monkeypatch.undo()
    await topics.delete(topic)
    await topics.create("others", 1, {})
    assert _folders(home) == ["orders-1", "others-0"]
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    assert list(again.services.topics.topics) == ["others"]
    assert _folders(again) == ["others-0"]
    await again.close()


def _find_no_thread(*_: TopicPartition) -> None:
    raise RuntimeError("can't start new thread")


async def leave_half_a_partition(
    home: ServicesOnDisk, disk: Disk, topic: Topic, count: int
) -> None:
    """Have a growth of "orders" fail, and its undo, too: a part of partition 1 stays."""
    disk.fail("create", errno.ENOSPC, "orders-1/0")
    disk.fail("unlink", errno.EIO, "orders-1/partition")
    with pytest.raises(KafkaStorageError):
        await home.services.topics.add_partitions(topic, count)
    disk.mend()


async def test_half_a_partition_of_a_deleted_topic_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that a growth has left on the disk does not bring the topic back."""
    home = await ServicesOnDisk(tmp_path).open()
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    disk = install(monkeypatch)
    await leave_half_a_partition(home, disk, topic, 2)
    home.services.logs.directories[0].check()
    await topics.delete(topic)
    await topics.create("others", 1, {})
    assert _folders(home) == ["orders-1", "others-0"]
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    assert list(again.services.topics.topics) == ["others"]
    assert _folders(again) == ["others-0"]
    await again.close()


async def test_half_a_partition_of_a_refused_growth_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has the partitions that clients were told, not those that the disk has kept."""
    home = await ServicesOnDisk(tmp_path).open()
    topic = await home.services.topics.create("orders", 1, {})
    disk = install(monkeypatch)
    await leave_half_a_partition(home, disk, topic, 3)
    assert _folders(home) == ["orders-0", "orders-1"]
    home.crash()
    again = await ServicesOnDisk(tmp_path).open()
    assert again.services.topics.topics["orders"].partitions == 1
    assert _folders(again) == ["orders-0"]
    await again.close()


async def test_half_a_partition_whose_removal_may_be_lost_keeps_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder was renamed, but a power failure may bring the old name back."""
    home = await ServicesOnDisk(tmp_path, directories=2).open()
    topics, logs = home.services.topics, home.services.logs
    topic = await topics.create("orders", 1, {})
    other = logs.directories[1]
    disk = install(monkeypatch)
    await leave_half_a_partition(home, disk, topic, 2)
    other.check()
    assert (other.path / "orders-1").exists()
    disk.fail("fsync", errno.EIO, str(other.path))
    home.clock.advance(RETRY_MS)
    logs.deletions.run_due()
    await asyncio.to_thread(logs.background.drain)
    assert not (other.path / "orders-1").exists()
    disk.mend()
    await topics.delete(topic)
    await topics.create("others", 1, {})
    assert topic.id in home.writer.state.deleted
    await home.close()


async def test_partitions_that_were_refused_do_not_come_back_with_the_next_refusal(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue may still have those of before, if it could not be written without them."""
    topics, commit = home.services.topics, home.writer.commit
    topic = await topics.create("orders", 1, {})
    _fill_disk(monkeypatch, "orders-2")
    commits: list[Callable[[CatalogState], None]] = []

    async def commit_once(change: Callable[[CatalogState], None]) -> None:
        commits.append(change)
        if len(commits) > 1:
            raise KafkaStorageError
        await commit(change)

    with monkeypatch.context() as patch:
        patch.setattr(home.writer, "commit", commit_once)
        with pytest.raises(KafkaStorageError):
            await topics.add_partitions(topic, 3)
    assert home.writer.state.topics["orders"].partitions == 3
    with pytest.raises(KafkaStorageError):
        await topics.add_partitions(topic, 4)

    assert topic.partitions == home.writer.state.topics["orders"].partitions == 1
    assert _folders(home) == ["orders-0"]


async def test_altered_settings_are_in_force_before_they_are_durable(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs obey while the disk is still busy, and the next change is made of these."""
    topics, write = home.services.topics, home.catalog.write
    topic = await topics.create("orders", 1, {})
    begun, may_end = threading.Event(), threading.Event()

    def write_slowly(state: CatalogState) -> None:
        begun.set()
        may_end.wait(10)
        write(state)

    monkeypatch.setattr(home.catalog, "write", write_slowly)
    first = asyncio.create_task(topics.edit(topic, lambda own: {**own, "retention.ms": "5"}))
    second = asyncio.create_task(topics.edit(topic, lambda own: {**own, "segment.ms": "7"}))
    await asyncio.to_thread(begun.wait, 10)
    config = topics.logs["orders", 0].config
    assert (config.retention_ms, config.segment_ms) == (5, 604_800_000)
    may_end.set()
    await asyncio.gather(first, second)

    config = topics.logs["orders", 0].config
    assert (config.retention_ms, config.segment_ms) == (5, 7)
    assert home.writer.state.topics["orders"].overrides == topic.overrides


async def test_a_deleted_topic_is_not_altered(home: ServicesOnDisk) -> None:
    """Nor is the next one of its name: a change that waited for the deletion is refused."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    outcomes = await asyncio.gather(
        topics.delete(topic),
        topics.create("orders", 1, {}),
        topics.alter(topic, {"retention.ms": "5"}),
        return_exceptions=True,
    )

    assert isinstance(outcomes[2], UnknownTopicOrPartition)
    assert topics.topics["orders"].overrides == {}


async def test_a_client_that_goes_away_leaves_nothing_half_done(home: ServicesOnDisk) -> None:
    """The work that its request began is ended."""
    topics = home.services.topics
    request = asyncio.create_task(topics.create("orders", 3, {}))
    await asyncio.sleep(0)
    request.cancel()
    await topics.close()

    assert topics.topics["orders"].partitions == 3


async def test_names_that_metrics_cannot_tell_apart_collide(home: ServicesOnDisk) -> None:
    """A dot and an underscore are the same there; when one is gone the other is free."""
    topics = home.services.topics
    topic = await topics.create("a.b", 1, {})
    with pytest.raises(InvalidTopic, match=r"a\.b"):
        topics.check_collision("a_b")
    topics.check_collision("a-b")
    topics.check_collision("a.b")
    await topics.delete(topic)

    topics.check_collision("a_b")


async def test_hidden_logs_are_of_no_topic(home: ServicesOnDisk) -> None:
    """The probe's log can be found by its name, and a deletion leaves it alone."""
    topics = home.services.topics
    topic = await topics.create("orders", 1, {})
    hidden = topics.logs["a secret", 0] = topics.logs["orders", 0]
    await topics.delete(topic)

    assert topics.logs == {("a secret", 0): hidden}


async def test_many_partitions_leave_the_loop_free(home: ServicesOnDisk) -> None:
    """Others are served while folders are made: the loop comes round for each of them."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(turn())
    await home.services.topics.create("orders", 40, {})
    others.cancel()

    assert turns > 40


async def test_no_topic_is_made_whose_folders_have_too_long_names(home: ServicesOnDisk) -> None:
    """It is refused before anything is made, and nothing is counted of it."""
    topics, name = home.services.topics, "a" * 249
    with pytest.raises(InvalidPartitions, match="100000 is the most with a name of 249 characters"):
        await topics.create(name, 100_001, {})

    assert home.writer.state.generation == 0
    assert _folders(home) == []
    await topics.create(name, 1, {})
