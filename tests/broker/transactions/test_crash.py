"""The broker ends at each write of a transaction: afterwards it happened everywhere or nowhere."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from siltstone.broker.transactions.transaction import COMPLETED, TransactionState
from siltstone.protocol.coordinator.group_records import NO_EXPIRY
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.parts import Buffer
from siltstone.storage import files
from tests.support.committed import new_offsets
from tests.support.faults import path_of, replace_pwrite
from tests.support.services import ServicesOnDisk
from tests.support.transactional import (
    COPY,
    GROUP,
    TIMEOUT_MS,
    commit_offset,
    end,
    following,
    init,
    log_of,
    new_home,
    open_home,
    produce,
    read_committed,
)

S = TransactionState
PARTITIONS = range(3)
DECISION = 1  # the first write of an end is the prepared state
WRITES = 6  # prepared state, three partitions, the group's offsets, completed state


class Crash(BaseException):
    """The process is gone: nothing may handle it."""


@contextmanager
def ending_after(writes: int) -> Iterator[None]:
    """Let that many batches be written, and none after them."""
    done = itertools.count()

    def counted(fd: int, batch: Buffer, position: int) -> int:
        if path_of(fd).endswith(files.LOG) and next(done) >= writes:
            raise Crash
        return os.pwrite(fd, batch, position)

    with pytest.MonkeyPatch.context() as patch:
        replace_pwrite(patch, counted)
        yield


async def crashed(root: Path, writes: int, *, commit: bool, version: int) -> ServicesOnDisk:
    """Return the broker after a restart; it ended so many writes into the second transaction's end.

    The first one has committed offset 1, the second would commit offset 2.
    """
    home = await open_home(root)
    producer = await init(home)
    for offset in (1, 2):
        if version < 2:
            wanted = [("orders", partition) for partition in PARTITIONS]
            wanted.append((OFFSETS_TOPIC, home.services.groups().journal.partition_for(GROUP)))
            home.services.transactions().add_partitions(COPY, *producer, wanted, client_version=0)
        for partition in PARTITIONS:
            sequence = 0 if version == 2 else offset - 1
            produce(
                home, producer, partition, sequence=sequence, version=12 if version == 2 else 10
            )
        commit_offset(home, producer, offset, version=5 if version == 2 else 3)
        if offset == 1:
            producer = following(end(home, producer, version=version))
    with ending_after(writes), suppress(Crash):
        end(home, producer, commit=commit, version=version)
    home.crash()
    return await open_home(root)


def committed_offset(home: ServicesOnDisk) -> int:
    """Return what the group has committed."""
    found = home.services.groups().offsets.find(GROUP, "orders", 0)
    assert found is not None
    return found.offset


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("writes", range(DECISION, WRITES + 1))
async def test_a_decided_transaction_is_carried_out(
    tmp_path: Path, writes: int, commit: bool, version: int
) -> None:
    """Once the prepared state is written: every partition, the group's offsets, whatever came."""
    home = await crashed(tmp_path, writes, commit=commit, version=version)

    transaction = home.services.transactions().describe(COPY)
    assert transaction.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    for partition in PARTITIONS:
        log = log_of(home, partition)
        assert log.last_stable_offset == log.log_end_offset
        assert read_committed(log) == ([0, 2] if commit else [0])
    assert committed_offset(home) == (2 if commit else 1)
    assert not home.services.groups().offsets.is_pending(GROUP, "orders", 0)
    await home.close()


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_an_undecided_transaction_is_still_open(
    tmp_path: Path, commit: bool, version: int
) -> None:
    """Nothing of it is visible; its producer can end it, or its time-out does."""
    home = await crashed(tmp_path, 0, commit=commit, version=version)

    transaction = home.services.transactions().describe(COPY)
    assert transaction.state is S.ONGOING
    assert committed_offset(home) == 1
    assert home.services.groups().offsets.is_pending(GROUP, "orders", 0)
    assert [log_of(home, partition).last_stable_offset for partition in PARTITIONS] == [2, 2, 2]
    if commit:
        end(home, following(transaction), version=version)
    else:
        home.clock.advance(TIMEOUT_MS + 1)
        await home.services.transactions().abort_timed_out()
    assert home.services.transactions().describe(COPY).state in COMPLETED
    for partition in PARTITIONS:
        log = log_of(home, partition)
        assert log.last_stable_offset == log.log_end_offset
        assert read_committed(log) == ([0, 2] if commit else [0])
    assert committed_offset(home) == (2 if commit else 1)
    await home.close()


async def test_a_commit_behind_an_open_transaction_is_kept(tmp_path: Path) -> None:
    """A start reads the journal of groups to its end, not to its last stable offset."""
    home = await open_home(tmp_path)
    commit_offset(home, await init(home), 5)
    groups = home.services.groups()
    committed = OffsetCommitValue(7, -1, "", home.clock.now_ms(), NO_EXPIRY)
    partition = groups.journal.partition_for(GROUP)
    groups.offsets.append(GROUP, partition, new_offsets(("orders", 1, committed)))
    home.crash()
    home = await open_home(tmp_path)

    assert home.services.groups().offsets.find(GROUP, "orders", 1) == committed
    await home.close()


@pytest.mark.parametrize("writes", range(3))
async def test_a_crash_while_a_transaction_opens(tmp_path: Path, writes: int) -> None:
    """Before its first record, after it, after its first batch: the time-out finds all of it."""
    home = await open_home(tmp_path)
    producer = await init(home)
    with ending_after(writes), suppress(Crash):
        produce(home, producer)
        produce(home, producer, sequence=1)
    home.crash()
    home = await open_home(tmp_path)
    home.clock.advance(TIMEOUT_MS + 1)
    await home.services.transactions().abort_timed_out()

    log = log_of(home, 0)
    assert log.last_stable_offset == log.log_end_offset
    assert read_committed(log) == []
    expected = S.COMPLETE_ABORT if writes else S.EMPTY
    assert home.services.transactions().describe(COPY).state is expected
    await home.close()


async def test_a_crash_of_the_recovery_is_recovered_from(tmp_path: Path) -> None:
    """Each start gets one write further than the one before, and the last one through."""
    home = await open_home(tmp_path)
    producer = await init(home)
    for partition in PARTITIONS:
        produce(home, producer, partition)
    commit_offset(home, producer, 7)
    with ending_after(DECISION), pytest.raises(Crash):
        end(home, producer)
    home.crash()
    for writes in range(WRITES - DECISION):
        home = new_home(tmp_path)
        with ending_after(writes), pytest.raises(Crash):
            await home.open()
        home.crash()
    home = await open_home(tmp_path)

    assert home.services.transactions().describe(COPY).state is S.COMPLETE_COMMIT
    for partition in PARTITIONS:
        log = log_of(home, partition)
        assert log.last_stable_offset == log.log_end_offset
        assert read_committed(log) == [0]
    assert committed_offset(home) == 7
    await home.close()
