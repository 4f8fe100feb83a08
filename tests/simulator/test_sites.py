"""The call sites of the disk: those of a running log are in the list."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.storage.manager import LogManager
from tests.simulator.sites import Site, list_sites, listed, where
from tests.simulator.world.disk import Disk
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock
from tests.support.logs import ORDERS, TOPIC_ID, append_waiting, bytes_of
from tools.house import PRODUCT
from tools.sources import Tree

ROOT = Path("/sim")


@cache
def sites() -> list[Site]:
    """Return the sites of the daemon."""
    return list_sites(Tree(Path(__file__).parents[2], PRODUCT))


@pytest.fixture
def seen() -> Iterator[Counter[Site]]:
    """Yield the sites that call a simulated disk from now on."""
    found = Counter[Site]()

    def before(kind: str, path: str, size: int) -> int:
        """Ask as the world does, which has one function more on the stack."""
        return note(kind, path, size)

    def note(kind: str, path: str, size: int) -> int:
        del path
        found[where(kind)] += 1
        return size

    disk = Disk(before, lambda: 0, str(ROOT))
    disk.install()
    yield found
    disk.uninstall()


def new_manager() -> LogManager:
    """Return a manager of small segments."""
    config = TopicConfig(segment_bytes=1_000)
    manager = LogManager((ROOT / "data",), ServerConfig(), lambda _: config, FakeClock())
    manager.load()
    return manager


def test_every_call_of_a_log_comes_from_a_site_of_the_list(seen: Counter[Site]) -> None:
    """Compiled code and functions that were handed on stand behind the function that waits."""
    manager = new_manager()
    log = manager.create(ORDERS, TOPIC_ID, TopicConfig(segment_bytes=1_000))
    for _ in range(40):
        append_waiting(log, make_batch([(b"k", b"v" * 90)]), TIMESTAMP)
        log.end.write(log)
    manager.close()
    manager = new_manager()
    bytes_of(manager.logs[ORDERS], 0)
    manager.close()

    assert {listed(site) for site in seen} <= set(sites())
    assert len(seen) > 80
    by = {site.function.partition(" by ")[2] for site in seen}
    assert {"", "write_at", "_read_once"} <= by
    assert Site("pwrite", "storage/files/_disk.pyx", "write_at") in {listed(site) for site in seen}


@pytest.mark.parametrize(
    "site",
    [
        Site("create", "storage/segment/segment.py", "LogSegment._create_file"),
        Site("create", "storage/directory/checkpoint.py", "write_entries"),
        Site("open", "storage/segment/file_set.py", "SegmentFiles.read"),
        Site("copy_file_range", "storage/moving/file_copy.py", "copy_range"),
        Site("preadv", "storage/files/_disk.pyx", "_read"),
        Site("rmdir", "storage/files/__init__.py", "remove_folder"),
    ],
    ids=str,
)
def test_sites_are_told_apart(site: Site) -> None:
    """By kind, file and function, whatever function of the files floor leads to the disk."""
    assert site in sites()


def test_files_that_are_opened_are_not_created() -> None:
    """A call that asks for a missing file to be created has a kind of its own."""
    found = set(sites())
    assert Site("create", "storage/directory/lock.py", "DirectoryLock.acquire") in found
    assert Site("open", "storage/directory/lock.py", "DirectoryLock.acquire") not in found
    assert Site("create", "storage/segment/file_set.py", "SegmentFiles.read") not in found
