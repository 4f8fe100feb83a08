"""An operator's day with the broker's own commands and the page, from the first start to a stop."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from siltstone.config.security import STANDARD_AUTHORIZER
from tests.support.broker import SiltstoneProcess
from tests.support.browser import Browser, find_chromium
from tests.support.built import build_newer
from tests.support.clients.confluent import Confluent
from tests.support.clients.transactional import Confluent as Transactional
from tests.support.clients.transactional import read
from tests.support.programs import run_to_end
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SETTINGS = "log.cleaner.backoff.ms: 100\n"
FAR_TOO_MUCH = 1 << 60
NEWER = "9.9.9"
SECURED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
RULE = AclBinding(
    ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.READ,
    AclPermissionType.ALLOW,
)  # fmt: skip


class Operator:
    """Types commands, and looks at the page."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "server.yaml"
        self.file.write_text(SETTINGS)
        environ = {**os.environ, "SILTSTONE_CONFIG": str(self.file)}
        environ.pop("COLUMNS", None)  # lines as long as they are
        self.broker = SiltstoneProcess(folder, environ={"SILTSTONE_CONFIG": str(self.file)})
        self._environ = environ
        self.error = ""

    def type(self, *words: str, code: int = 0, given: str = "") -> str:
        """Run a command, which must end with this code; return what it prints."""
        done = self._run(words, given)
        self.error = done.stderr
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def tries(self, *words: str, given: str = "") -> bool:
        """Tell whether a command succeeds."""
        return not self._run(words, given).returncode

    def _run(self, words: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        return run_to_end(
            self.broker.command(*words), env={**self._environ, **self.broker.environ}, input=given
        )


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a newer version, as an installer unpacks its wheel."""
    return build_newer(tmp_path_factory.mktemp("newer"), NEWER)


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """Somebody with a broker that does not run yet."""
    made = Operator(tmp_path)
    try:
        yield made
    finally:
        made.broker.close()


def upgrade(broker: SiltstoneProcess, newer: Path) -> None:
    """Stop cleanly, and start the newer version on the same folder."""
    assert broker.stop() == 0
    broker.program = [sys.executable, "-P", "-m", "siltstone"]
    broker.environ["PYTHONPATH"] = str(newer)
    broker.start()
    assert broker.daemon.wait_for(r"ready version=(\S+)")[1] == NEWER


def lines(first: int, count: int) -> str:
    """Return records of few keys, in lines."""
    return "".join(
        f"customer-{each % 20}:{each} {'x' * 100}\n" for each in range(first, first + count)
    )


def test_a_day(operator: Operator, newer: Path, tmp_path: Path) -> None:
    """Start, make a topic, produce, look, set, watch it compact, fill up, free, upgrade, stop."""
    find_chromium()
    assert "does not run" in operator.type("doctor")
    operator.broker.start()
    assert "reached from here" in operator.type("doctor")

    settings = ("-c", "cleanup.policy=compact", "-c", "segment.bytes=20000")
    never = ("-c", "min.cleanable.dirty.ratio=1.0")
    operator.type("topics", "create", "customers", *settings, *never)
    operator.type("produce", "customers", "-k", ":", given=lines(0, 1000))
    assert "ratio-below" in operator.type("explain", "customers")

    with Browser(tmp_path / "profile") as browser:
        browser.resize(1280, 800)
        browser.open(f"http://{operator.broker.http}/#topic/customers")
        strip = "document.querySelector('.strip')?.ariaLabel"
        assert "dirty" in browser.wait_for(strip, "the segments of the topic")
        operator.type("topics", "alter", "customers", "-c", "min.cleanable.dirty.ratio=0.01")
        browser.wait_for(f"!{strip}.includes('dirty')", "a topic that is compacted")
        wait_to_see(browser, operator, "cleaner", "cleaned")

        fill_up(operator)
        wait_until(lambda: not operator.tries("health"), "a broker that is not ready")
        wait_to_see(browser, operator, "overview", "takes no produce requests now")
        operator.type("produce", "customers", "-k", ":", given="a:1\n", code=1)
        assert "KAFKA_STORAGE_ERROR" in operator.error
        assert "log.dirs.reserve.bytes" in operator.error
        assert operator.type("consume", "customers", "-n", "1")

        free(operator)
        wait_until(lambda: operator.tries("health"), "a broker that is ready")
        operator.type("produce", "customers", "-k", ":", given="last:1\n")
        wait_to_see(browser, operator, "overview", "Ready: a record makes its round trip")
        assert browser.troubles == []

    upgrade(operator.broker, newer)
    latest = {}
    for line in operator.type("consume", "customers", "--json").splitlines():
        record = json.loads(line)
        latest[record["key"]] = record["value"].split()[0]
    assert latest == {**{f"customer-{each}": f"{980 + each}" for each in range(20)}, "last": "1"}
    assert operator.broker.stop() == 0
    assert "customers-0" in operator.type("explain", "customers")


def test_what_an_upgrade_keeps(newer: Path, tmp_path: Path) -> None:
    """Topic id and setting, committed offsets, an ACL; an open transaction goes on."""
    broker = SiltstoneProcess(tmp_path, SECURED)
    with closing(broker):
        broker.start()
        Confluent(broker.bootstrap).create("orders", 2, {"retention.ms": "86400000"})
        payments = Transactional(broker.bootstrap)
        payments.write("payments", "orders", [([b"1", b"2"], True)], ("readers", "orders", 1))
        begun = payments.producer("payments")
        begun.begin_transaction()
        begun.produce("orders", b"open", partition=0)
        begun.flush(PATIENCE)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_acls([RULE])[RULE].result()
        before = kept(broker)

        upgrade(broker, newer)

        assert kept(broker) == before
        begun.commit_transaction(PATIENCE)
        payments.write("payments", "orders", [([b"3"], True)], ("readers", "orders", 2))
        assert sorted(read(broker.bootstrap, "orders", committed=True)) == [
            b"1", b"2", b"3", b"open",
        ]  # fmt: skip
        assert kept(broker)["committed"] == [("orders", 0, 2)]
        assert broker.stop() == 0


def kept(broker: SiltstoneProcess) -> dict[str, Any]:
    """Return what there is besides records."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    every: Any = None
    anything = AclBindingFilter(
        ResourceType.ANY, every, ResourcePatternType.ANY, every, every, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    asked = [ConsumerGroupTopicPartitions("readers")]
    committed = admin.list_consumer_group_offsets(asked)["readers"].result().topic_partitions
    topic = admin.describe_topics(TopicCollection(["orders"]))["orders"].result()
    return {
        "acls": admin.describe_acls(anything).result(),
        "committed": [(each.topic, each.partition, each.offset) for each in committed],
        "id": str(topic.topic_id),
        "retention": Confluent(broker.bootstrap).configs("orders")["retention.ms"],
    }


def wait_to_see(browser: Browser, operator: Operator, view: str, text: str) -> None:
    """Open a view of the page and wait until it says something."""
    browser.open(f"http://{operator.broker.http}/#{view}")
    says = f"document.getElementById('main')?.innerText.includes({json.dumps(text)})"
    browser.wait_for(says, f"{text!r} on the page")


def fill_up(operator: Operator) -> None:
    """Have a disk that has less than its reserve; a faulty file before changes nothing."""
    operator.file.write_text(f"{SETTINGS}log.dirs.reserve.bytes: plenty\n")
    operator.type("reload", code=2)
    assert "log.dirs.reserve.bytes is plenty" in operator.error
    operator.file.write_text(SETTINGS)
    assert operator.tries("health")
    operator.file.write_text(f"{SETTINGS}log.dirs.reserve.bytes: {FAR_TOO_MUCH}\n")
    assert "log.dirs.reserve.bytes" in operator.type("diff")
    operator.type("reload")
    rows = json.loads(operator.type("config", "--json"))
    (row,) = (each for each in rows if each["name"] == "log.dirs.reserve.bytes")
    assert row["value"] == str(FAR_TOO_MUCH)
    assert row["source"] == f"{operator.file} line 2"


def free(operator: Operator) -> None:
    """Have room again."""
    operator.file.write_text(SETTINGS)
    operator.type("reload")


def test_a_backup_is_restored_as_the_page_says(operator: Operator, tmp_path: Path) -> None:
    """Its lines are typed in their order, with the folders of this test; systemd is played."""
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    section = page.partition("## Backup")[2].partition("\n## ")[0]
    made, restored = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    data = operator.broker.folder
    (tmp_path / "backups").mkdir()

    def adapted(line: str) -> list[str]:
        line = line.replace("/var/lib/siltstone", str(data))
        return line.replace("/var/backups/siltstone", str(tmp_path / "backups")).split()

    operator.broker.start()
    operator.type("topics", "create", "orders", "-p", "2", "-c", "retention.ms=-1")
    operator.type("produce", "orders", given="one\ntwo\n")
    program, *words = adapted(made)
    assert program == "siltstone"
    operator.type(*words)
    operator.type("produce", "orders", given="three\n")

    for line in restored.splitlines():
        if line.startswith("systemctl stop"):
            assert operator.broker.stop() == 0
        elif line.startswith("systemctl start"):
            operator.broker.start()
        else:
            subprocess.run(adapted(line), check=True)

    assert sorted(operator.type("consume", "orders").split()) == ["one", "two"]
    assert "retention.ms" in operator.type("topics", "describe", "orders")
