"""The files of users, ACLs and quotas: changes side by side, cut short, and on a failing disk."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from siltstone.broker.process import again
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.acl import Operation, ResourceType
from siltstone.broker.security.acl_store import AclWriter, load_acls
from siltstone.broker.security.authorizer import Authorizer
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.quotas.book import Quotas
from siltstone.broker.security.quotas.store import QuotaWriter, load_quotas
from siltstone.broker.security.scram import make_verifier
from siltstone.broker.security.users import UserStore, UserWriter
from siltstone.protocol.errors import KafkaStorageError
from tests.support.asking_as import rule
from tests.support.faults import ALWAYS, Disk, install
from tests.support.waiting import begin_and_go, equals, give_turns_until

VERIFIER = make_verifier(PLAIN_HASH, "secret")


class Users:
    """The users of a folder, as changes and starts see them."""

    def __init__(self, folder: Path, io: IoThreads) -> None:
        self._folder = folder
        self._store = UserStore(folder)
        self.writer = UserWriter(self._store, io)

    async def add(self, name: str) -> None:
        """Add a user."""
        await self.writer.change(lambda draft: draft.update({name: {PLAIN: VERIFIER}}))

    def in_force(self) -> Collection[str]:
        """Return which users may log in."""
        return list(self._store.credentials)

    def found(self) -> Collection[str]:
        """Return which users a start finds."""
        store = UserStore(self._folder)
        store.load()
        return list(store.credentials)


class Acls:
    """The same of rules, each for a topic."""

    def __init__(self, folder: Path, io: IoThreads) -> None:
        self._folder = folder
        self._authorizer = Authorizer()
        self.writer = AclWriter(folder, self._authorizer, io)

    async def add(self, name: str) -> None:
        """Add a rule."""
        await self.writer.add([rule(Operation.READ, ResourceType.TOPIC, name)])

    def in_force(self) -> Collection[str]:
        """Return of which topics there are rules."""
        return [each.pattern.name for each in self._authorizer]

    def found(self) -> Collection[str]:
        """Return of which topics a start finds rules."""
        return [each.pattern.name for each in load_acls(self._folder)]


class QuotasOfUsers:
    """The same of quotas, each of a user."""

    def __init__(self, folder: Path, io: IoThreads) -> None:
        self._folder = folder
        self._quotas = Quotas()
        self.writer = QuotaWriter(folder, self._quotas, io)

    async def add(self, name: str) -> None:
        """Add a quota."""
        own = {"request_percentage": 1.0}
        await self.writer.change(lambda draft: draft.update({(("user", name),): own}))

    def in_force(self) -> Collection[str]:
        """Return of which users there are quotas."""
        return [name or "" for ((_, name),) in self._quotas.values]

    def found(self) -> Collection[str]:
        """Return of which users a start finds quotas."""
        return [name or "" for ((_, name),) in load_quotas(self._folder)]


Kind = type[Users | Acls | QuotasOfUsers]
KINDS = pytest.mark.parametrize("kind", [Users, Acls, QuotasOfUsers])


@KINDS
async def test_changes_side_by_side(tmp_path: Path, io: IoThreads, kind: Kind) -> None:
    """None of those that come together is lost."""
    kept = kind(tmp_path, io)
    names = {f"{number:02}" for number in range(20)}
    await asyncio.gather(*map(kept.add, names))

    assert set(kept.found()) == set(kept.in_force()) == names


@KINDS
async def test_a_client_that_goes_leaves_no_half_change(
    tmp_path: Path, io: IoThreads, kind: Kind
) -> None:
    """A change that has begun is on the disk and in force before the next one."""
    kept = kind(tmp_path, io)
    await begin_and_go(kept.add("a"))
    await kept.add("b")
    await begin_and_go(kept.add("c"))
    await kept.writer.file.finish()

    assert set(kept.found()) == set(kept.in_force()) == {"a", "b", "c"}


@KINDS
@pytest.mark.parametrize("before", [[], ["old"]])
@pytest.mark.parametrize("failing", [0, 1])  # the fsync of the file, that of the folder
async def test_a_start_finds_nothing_that_was_refused(
    tmp_path: Path,
    io: IoThreads,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    before: list[str],
    failing: int,
) -> None:
    """The old content comes back, fsynced, where the new one has its name when an fsync fails."""
    kept = kind(tmp_path, io)
    for each in before:
        await kept.add(each)
    disk = install(monkeypatch)
    disk.fail("fsync", after=failing, times=1)
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        await kept.add("new")

    assert kept.found() == kept.in_force() == before
    for number, (call, _) in enumerate(disk.calls):
        assert call != "rename" or disk.calls[number - 1][0] == "fsync"


async def _refuse_a_second_one(
    kept: Users | Acls | QuotasOfUsers, monkeypatch: pytest.MonkeyPatch
) -> Disk:
    """Have the disk take one change, then refuse one whose file has its name, and the old file."""
    await kept.add("old")
    disk = install(monkeypatch)
    disk.fail("fsync", after=1, times=ALWAYS)
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        await kept.add("new")
    return disk


@KINDS
@pytest.mark.parametrize("then", ["waits", "stops", "goes on"])
async def test_an_old_file_that_the_disk_refuses_is_put_back_later(
    tmp_path: Path, io: IoThreads, monkeypatch: pytest.MonkeyPatch, kind: Kind, then: str
) -> None:
    """Within a second or so, at the stop, or with the next change."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 0.001 if then == "waits" else 60.0)
    kept = kind(tmp_path, io)
    disk = await _refuse_a_second_one(kept, monkeypatch)
    assert set(kept.found()) == {"old", "new"}
    disk.mend()
    if then == "stops":
        await kept.writer.file.finish()
    elif then == "goes on":
        await kept.add("next")

    wanted = ["next", "old"] if then == "goes on" else ["old"]
    await give_turns_until(lambda: sorted(kept.found()), "what a start finds", equals(wanted))
    assert sorted(kept.in_force()) == wanted


@KINDS
@pytest.mark.parametrize(("before", "failing"), [([], (1,)), ([], (1, 2)), (["old"], (1, 3))])
async def test_a_name_that_is_put_back_is_fsynced(
    tmp_path: Path,
    io: IoThreads,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    before: list[str],
    failing: tuple[int, ...],
) -> None:
    """Else a power failure could bring the refused file back, though its content was replaced."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 0.001)
    kept = kind(tmp_path, io)
    for each in before:
        await kept.add(each)
    disk = install(monkeypatch)
    for count, fsync in enumerate(failing):
        disk.fail("fsync", after=fsync - count, times=1)
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        await kept.add("new")

    def fsynced() -> list[str]:
        return [path for call, path in disk.calls if call == "fsync"][len(failing) + 1 :]

    wanted = equals(str(tmp_path))
    await give_turns_until(lambda: (fsynced() or [""])[-1], "the last fsync", wanted)
    assert kept.found() == before


@KINDS
async def test_a_stop_logs_that_an_old_file_is_not_back(
    tmp_path: Path,
    io: IoThreads,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An operator can look at the file before the next start takes a refused change from it."""
    kept = kind(tmp_path, io)
    await _refuse_a_second_one(kept, monkeypatch)
    assert "tried again every second" in caplog.text

    await kept.writer.file.finish()

    assert "the next start may find a refused change" in caplog.text
