"""`siltstone explain`, `clean`, `history` and `verify` as somebody types them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.commands.asking import Which, meant_by
from siltstone.broker.commands.explain_text import duration, event_line, size
from siltstone.storage import files
from tests.support.batches import TIMESTAMP
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.messages import Message

KAFKAS = Path(__file__).parents[2] / "data" / "settings"
SETTINGS = {"log.cleaner.backoff.ms": "3600000", "log.segment.bytes": "20000"}


class Typed:
    """A broker with a compacted topic `orders-7`, and commands with its settings."""

    def __init__(self, root: Path) -> None:
        self.broker = SiltstoneProcess(root, SETTINGS)

    def start(self) -> None:
        """Start the broker."""
        self.broker.start()
        self.client = Confluent(self.broker.bootstrap)

    def open(self) -> None:
        """Start the broker and write something to be cleaned."""
        self.start()
        self.client.create("orders-7", 2, {"cleanup.policy": "compact"})
        self.produce(200)

    def produce(self, count: int) -> None:
        """Write records of ten keys to partition 0, in batches of a few."""
        rows = [
            Message(b"k%d" % (number % 10), b"v" * 500, (), TIMESTAMP) for number in range(count)
        ]
        self.client.produce("orders-7", rows)

    def run(self, *arguments: str, broker: SiltstoneProcess | None = None) -> tuple[int, str, str]:
        """Return exit code, output and errors of a command, with the settings of a broker."""
        done = (broker or self.broker).run(*arguments)
        return done.returncode, done.stdout, done.stderr

    def facts(self, *arguments: str) -> list[dict[str, Any]]:
        """Return what `explain --json` says of each partition."""
        code, output, errors = self.run("explain", "--json", *arguments)
        assert code == 0, errors
        partitions: list[dict[str, Any]] = json.loads(output)["partitions"]
        return partitions


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """One broker for all commands; its cleaner sleeps unless it is asked."""
    typed = Typed(tmp_path_factory.mktemp("typed"))
    try:
        typed.open()
        yield typed
    finally:
        typed.broker.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Typed]:
    """A broker for one test: a pass that is asked for wakes the cleaner for all other topics."""
    typed = Typed(tmp_path / "alone")
    try:
        typed.start()
        yield typed
    finally:
        typed.broker.close()


def nobody(root: Path) -> SiltstoneProcess:
    """Return a broker that does not run; nothing listens where it would."""
    stopped = SiltstoneProcess(root / "nobody", SETTINGS)
    stopped.http = "127.0.0.1:1"
    return stopped


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_story_of_a_topic(typed: Typed) -> None:
    """Why, what would happen, have it done, what did happen, and is it right."""
    code, output, _ = typed.run("explain", "orders-7-0")
    assert code == 0
    assert "orders-7-0: eligible (ratio-above)" in output
    assert "min.cleanable.dirty.ratio=0.5 (default)" in output
    code, output, _ = typed.run("explain", "orders-7", "--dry-run")
    assert code == 0
    assert "superseded" in output
    assert "orders-7-1: not eligible (empty)" in output
    assert "dry run   there is nothing to clean now" in output
    (predicted, _) = typed.facts("orders-7", "--dry-run")

    code, output, errors = typed.run("clean", "orders-7", "--wait")
    assert code == 0, errors
    assert "orders-7-0  cleaned: offsets 0 to" in output
    assert "as predicted" in output
    assert "orders-7-1: no pass, there is nothing in it" in output

    code, output, _ = typed.run("history", "orders-7-0", "--json")
    (event,) = [json.loads(line) for line in output.splitlines()]
    assert event["records_dropped"] == predicted["prediction"]["records_dropped"]
    assert event["bytes_out"] == predicted["prediction"]["bytes_out"]
    code, output, _ = typed.run("history")
    assert "orders-7-0  cleaned" in output
    code, output, errors = typed.run("verify")
    assert (code, output) == (1, "")
    assert "the broker runs" in errors

    before = typed.facts("orders-7-0")
    code, lines, _ = typed.run("history", "orders-7-0")
    assert typed.broker.stop() == 0
    code, output, errors = typed.run("history", "orders-7-0")
    assert (code, output) == (0, lines)
    assert "this is what its folders say" in errors
    after = typed.facts("orders-7-0")
    assert after == before
    code, output, errors = typed.run("verify")
    assert (code, errors) == (0, "")
    assert "orders-7-0: fine; " in output
    assert "survivors are as they were" in output
    logs = sorted((typed.broker.folder / "orders-7-0").glob("*.log"))
    damaged = next(path for path in logs if path.stat().st_size)
    data = damaged.read_bytes()
    damaged.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    code, output, _ = typed.run("verify", "orders-7")
    assert code == 1
    assert f"FAULT {damaged.name} position" in output
    damaged.write_bytes(data)
    typed.broker.start()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("wait", [[], ["--wait"]])
def test_nothing_to_clean_is_no_success(typed: Typed, wait: list[str]) -> None:
    """No pass is asked for, the words say so, and a script can tell."""
    topic = f"fresh{len(wait)}"
    typed.client.create(topic, 2, {"cleanup.policy": "compact"})

    assert typed.run("clean", topic, *wait) == (
        1,
        "",
        f"siltstone: there is nothing to clean in {topic} now; ask siltstone explain {topic} why\n",
    )
    assert typed.run("clean", f"{topic}-1", *wait) == (
        1,
        "",
        f"siltstone: there is nothing to clean in {topic}-1 now: there is nothing in it\n",
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_commands_say_what_is_wrong(typed: Typed, tmp_path: Path) -> None:
    """An unknown topic, a topic that is not compacted, nobody there."""
    assert typed.run("explain", "nope")[::2] == (
        1,
        "siltstone: there is no topic or partition nope here\n",
    )
    assert typed.run("clean", "nope-3")[::2] == (
        1,
        "siltstone: there is no topic or partition nope-3 here\n",
    )
    code, _, errors = typed.run("clean", "orders-7", broker=nobody(tmp_path))
    assert code == 1
    assert "no broker answers on http.listener 127.0.0.1:1" in errors


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_copy_of_the_folders_is_explained_without_a_broker(typed: Typed, tmp_path: Path) -> None:
    """Also with a dry run, and nothing in it changes."""
    stopped = nobody(tmp_path)
    copy = stopped.folder
    # The broker goes on: what it is just writing under another name may be gone when it is copied.
    shutil.copytree(typed.broker.folder, copy, ignore=shutil.ignore_patterns("*.tmp"))
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}

    code, output, errors = typed.run("explain", "orders-7-0", "--dry-run", broker=stopped)

    assert code == 0, errors
    assert "this is what its folders say" in errors
    assert "orders-7-0: " in output
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    stopped.http = typed.broker.http
    assert typed.run("verify", broker=stopped)[0] == 0  # that its original is open does not matter


def test_a_folder_of_apache_kafka_is_explained_by_its_own_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The catalogue comes with the first start; until then the metadata log has the settings."""
    shutil.copytree(KAFKAS, tmp_path / "data")
    sets = ("--set", f"log.dirs={tmp_path / 'data'}", "--set", "http.listener=127.0.0.1:1")

    assert main(["explain", "customers", "--json", *sets]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["partitions"]

    assert answer["rule"] == "empty"
    assert answer["min_cleanable_dirty_ratio"] == 0.25
    assert main(["explain", "orders-0", *sets]) == 0
    assert "cleanup.policy=delete" in capsys.readouterr().out
    (tmp_path / "data" / "customers-0" / files.PARTITION_METADATA).write_text("damaged")
    assert main(["explain", "customers", *sets]) == 0
    assert "is not the two lines" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_active_segment_is_closed_on_demand(alone: Typed) -> None:
    """The advice of explain where all that is dirty is in it."""
    alone.client.create("active", 1, {"cleanup.policy": "compact"})
    rows = [Message(b"k", b"v%d" % number, (), TIMESTAMP) for number in range(10)]
    alone.client.produce("active", rows)
    code, output, _ = alone.run("explain", "active")
    assert code == 0
    assert "to do     set segment.ms, or siltstone clean --roll active" in output
    code, _, errors = alone.run("clean", "active-0", "--wait")
    assert code == 1
    assert "siltstone clean --roll closes it first" in errors

    code, output, errors = alone.run("clean", "active", "--roll", "--wait", "--json")

    assert code == 0, errors
    told = json.loads(output)
    assert told["requested"] == [{"topic": "active", "partition": 0}]
    (event,) = told["passes"]
    assert (event["outcome"], event["records_in"]) == ("cleaned", 10)
    assert told["no_pass"] == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (None, [Which()]),
        ("orders", [Which("orders")]),
        ("orders-3", [Which("orders", 3), Which("orders-3")]),
        ("a-b-3", [Which("a-b", 3), Which("a-b-3")]),
        ("orders-x", [Which("orders-x")]),
        ("-3", [Which("-3")]),
    ],
)
def test_name_may_mean_a_partition_or_a_topic(name: str | None, meant: list[Which]) -> None:
    """Topics may end in a number, too: then the second guess is right."""
    assert meant_by(name) == meant


def test_sizes_and_times_are_for_a_person() -> None:
    """A few digits and a unit."""
    assert [size(each) for each in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5 MiB",
        "3 TiB",
    ]
    assert [duration(each) for each in (0.25, 119, 180, 7200, 172_800)] == [
        "0.25 s",
        "119 s",
        "3 min",
        "2 h",
        "2 days",
    ]


def test_failed_pass_is_a_line_too() -> None:
    """With cause and reason."""
    event = {
        "topic": "orders",
        "partition": 0,
        "started_ms": 1_700_000_000_000,
        "outcome": "failed",
        "cause": "OSError",
        "reason": "No space left on device",
    }

    assert event_line(event) == (
        "2023-11-14 22:13:20 UTC  orders-0  failed: OSError No space left on device"
    )


def test_one_of_a_thing_is_one() -> None:
    """A pass over one segment with one record and one key."""
    event = {
        "topic": "orders",
        "partition": 0,
        "started_ms": 1_700_000_000_000,
        "outcome": "cleaned",
        "first_dirty_offset": 0,
        "end_offset": 1,
        "segments_in": 1,
        "segments_out": 1,
        "bytes_in": 80,
        "bytes_out": 80,
        "records_in": 1,
        "records_out": 1,
        "records_dropped": {},
        "map_keys": 1,
        "map_full": False,
        "seconds": 0.001,
    }

    assert event_line(event) == (
        "2023-11-14 22:13:20 UTC  orders-0  cleaned: offsets 0 to 1, 1 segment to 1, "
        "80 B to 80 B, 1 record to 1 (none went), map 1 key, 0.001 s"
    )
