"""Fixtures that several folders of tests share, and what a run says at its end."""

import gc
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from siltstone.testing.plugin import shorten
from tests import tiers
from tests.support import faults, missing
from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker, KafkaJars, KafkaTools
from tests.support.oracle import Broker, is_kafka, make_broker, serving
from tests.support.power import PowerDisk
from tests.support.tool_server import ToolServer

# A machine that is busy with something else is slow, which is no fault of an example.
settings.register_profile(
    "patient", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take Apache Kafka in our place: a client test that it fails is a wrong test."""
    parser.addoption(
        "--broker",
        choices=("siltstone", "kafka"),
        default="siltstone",
        help="the broker that the client tests talk to (default: siltstone)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply CI's rule to each test, and leave out most of what clients say in one that failed."""
    report = yield
    missing.fail_skips_in_ci(report)
    report.sections = [(name, shorten(text.splitlines())) for name, text in report.sections]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Apply CI's rule to a module that skips itself."""
    report = yield
    missing.fail_skips_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect without garbage collection: nearly all that is made stays, and is never looked at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a module that cannot have a test of what `-m` asks for (`tiers`)."""
    if collection_path.suffix != ".py":
        return None
    return None if tiers.may_have_a_test(config.option.markexpr, collection_path) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that may take longest, so that no process is left with one alone.

    A limit that is longer than the usual one tells, then whether there is a state machine, whose
    one test lives a hundred lives, then how many tests there are.
    """
    longest: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        limit = item.get_closest_marker("timeout")
        slow = item.get_closest_marker("slow") is not None
        longest[item.path] = max(longest[item.path], limit.args[0] if limit else slow)
    machines = {item.path for item in items if item.name == "runTest"}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (-longest[item.path], item.path not in machines, -count[item.path]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with how to run what failed, and with what was not tested here and its remedy."""
    failed = [
        report.nodeid
        for outcome in ("failed", "error")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    if failed:
        terminalreporter.section("to run just what failed")
        seed = terminalreporter.config.getoption("randomly_seed", None)
        terminalreporter.write_line(tiers.again(dict.fromkeys(failed), seed))
    lines = list(missing.summary(terminalreporter.stats.get("skipped", [])))
    if lines:
        terminalreporter.section("not tested on this machine")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> faults.Disk:
    """The disk under storage, without faults yet."""
    return faults.install(monkeypatch)


@pytest.fixture
def power_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PowerDisk:
    """The disk under storage, whose power can be cut."""
    cellar = tmp_path / "cellar"
    cellar.mkdir()
    disk = PowerDisk(cellar=cellar)
    faults.install(monkeypatch, disk)
    return disk


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A folder on the machine's own disk; `tmp_path` may lie in memory, which forgets no page."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for tests that open thousands of logs."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fsync, which would only cost time here: a killed process loses no page cache."""
    monkeypatch.setattr("siltstone.storage.files.disk.fsync", lambda _: None)


@pytest.fixture(scope="session")
def kafka_jars() -> KafkaJars:
    """Kafka's jars in the cache, or a skip that says what is missing."""
    try:
        return KafkaJars.find()
    except LookupError as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="session")
def kafka_tools(kafka_jars: KafkaJars) -> Iterator[KafkaTools]:
    """Kafka's command-line tools, in one JVM where there is a compiler for what runs them there."""
    try:
        server = ToolServer(kafka_jars)
    except LookupError:
        yield KafkaTools(kafka_jars)
        return
    yield KafkaTools(kafka_jars, server)
    server.close()


@pytest.fixture
def kafka_broker(kafka_jars: KafkaJars, tmp_path: Path) -> Iterator[KafkaBroker]:
    """An Apache Kafka of this test alone, not yet started."""
    broker = KafkaBroker(kafka_jars, tmp_path / "kafka")
    yield broker
    broker.close()


@pytest.fixture
def siltstone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SiltstoneProcess]:
    """A broker process of this test alone, not yet started: for what is only of ours."""
    if is_kafka(request):
        pytest.skip("--broker=kafka: a test of siltstone alone")
    broker = SiltstoneProcess(tmp_path / "siltstone")
    yield broker
    broker.close()


@pytest.fixture
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of this test alone, not yet started."""
    broker = make_broker(request, tmp_path / "own")
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """One running broker for every test that only needs topics of its own."""
    with serving(request, tmp_path_factory.mktemp("broker")) as running:
        yield running
