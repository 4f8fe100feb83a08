"""The fixtures, in runs of pytest as a project has them that installed Siltstone."""

import os
import re
import sys
from pathlib import Path

import pytest

from siltstone import testing
from siltstone.testing import plugin
from tests.support.programs import run_to_end

pytestmark = [pytest.mark.client, pytest.mark.slow]

FIXTURES = """
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

seen = []


def topics(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return admin.list_topics(timeout=20).topics


@pytest.fixture(scope="module")
def shared(kafka):
    return kafka.create_topic("shared")


@pytest.fixture
def own(kafka):
    return kafka.create_topic("own")


def test_a_topic(kafka, kafka_topic, shared):
    seen.append((kafka.pid, kafka_topic))
    assert len(topics(kafka)[kafka_topic].partitions) == 1


@pytest.mark.kafka_topic(partitions=5, config={"retention.ms": 1000})
@pytest.mark.parametrize("number", [1, 2])
def test_a_topic_by_marker(kafka, kafka_topic, number, own):
    seen.append((kafka.pid, kafka_topic))
    assert len(topics(kafka)[kafka_topic].partitions) == 5
    kafka.create_topic("made in the test".replace(" ", "-"))
    kafka.kill()


def test_what_others_left(kafka):
    kafka.fail_next("Metadata", error="DISCONNECT", times=1000)
    assert len({name for _, name in seen}) == 3
    assert kafka.topics() == ["shared"]


def test_it_was_healed(kafka):
    assert set(topics(kafka)) == {"shared"}


def test_without():
    pass
"""


def run(folder: Path, code: str, *options: str, name: str = "test_project.py") -> str:
    """Run pytest over one file and return what it says."""
    (folder / name).write_text(code)
    done = run_to_end(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )
    return done.stdout + done.stderr


def test_each_test_finds_the_broker_as_it_was(tmp_path: Path) -> None:
    """One broker; topics of a test, of its fixtures and its faults go, those of a module stay."""
    said = run(tmp_path, FIXTURES, "-W", "error", "--strict-markers", "-p", "no:asyncio")

    assert "6 passed" in said, said


def test_each_worker_has_its_broker(tmp_path: Path) -> None:
    """Under pytest-xdist, where sessions are processes."""
    code = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_one(kafka, kafka_topic, number, record_property, worker_id):
    print(f"PID={worker_id}:{kafka.pid}:{kafka.bootstrap_servers}=")
    assert kafka.topics() == [kafka_topic]
"""
    said = run(tmp_path, code, "-n", "2", "-rA")

    assert "4 passed" in said, said
    found = set(re.findall(r"PID=(\w+):(\d+):(\S+)=", said))
    assert len({worker for worker, _, _ in found}) == len(found) == 2
    assert len({pid for _, pid, _ in found}) == len({address for *_, address in found}) == 2


def test_settings_of_the_project(tmp_path: Path) -> None:
    """A fixture of the session in its conftest.py."""
    conftest = """
import pytest

@pytest.fixture(scope="session")
def kafka_settings():
    return {"num.partitions": 7, "auto.create.topics.enable": False}
"""
    (tmp_path / "conftest.py").write_text(conftest)
    code = """
from confluent_kafka.admin import AdminClient

def test_it(kafka):
    name = kafka.create_topic(partitions=-1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert len(admin.list_topics(timeout=20).topics[name].partitions) == 7
"""
    said = run(tmp_path, code)

    assert "1 passed" in said, said


def test_a_marker_that_says_something_else(tmp_path: Path) -> None:
    """A count without its name would be a topic of one partition, without a word."""
    code = """
import pytest

@pytest.mark.kafka_topic(3)
def test_count(kafka_topic):
    pass

@pytest.mark.kafka_topic(partition=3)
def test_name(kafka_topic):
    pass
"""
    said = run(tmp_path, code)

    assert "2 errors" in said, said
    sentence = "the marker kafka_topic takes config and partitions by their names"
    assert said.count(sentence) >= 2
    assert "write that at test_project.py::test_name" in said


def test_a_marker_that_the_broker_refuses(tmp_path: Path) -> None:
    """Its sentence and the test to mend, without a line of a plugin."""
    code = """
import pytest

@pytest.mark.kafka_topic(config={"retention.ms": "soon"})
def test_it(kafka_topic):
    pass
"""
    said = run(tmp_path, code, "-p", "no:asyncio")

    assert "1 error" in said, said
    assert "retention.ms is soon; it must be a whole number" in said
    assert "see the marker kafka_topic of test_project.py::test_it" in said
    assert not re.search(r"^\S+\.py:\d+", said, re.MULTILINE), said


def test_what_a_failed_test_shows(tmp_path: Path) -> None:
    """The test's own line, the sentence, and what the broker logged meanwhile; no line of ours."""
    code = """
def test_before(kafka):
    kafka.create_topic("before")

def test_refused(kafka, kafka_topic):
    kafka.fail_next("Produce", error="NOPE")

def test_killed(kafka):
    kafka.kill()
    kafka.topics()

def test_long(kafka):
    for number in range(60):
        kafka.create_topic()
    assert False

def test_without():
    assert False
"""
    said = run(tmp_path, code)

    assert "4 failed, 1 passed" in said, said
    _, refused, killed, long, without = re.split(r"_{5,} test_\w+ _{5,}", said)
    assert '>       kafka.fail_next("Produce", error="NOPE")' in refused
    assert "E       siltstone.testing.errors.AskedInVain: 'NOPE' is no error of Kafka's" in refused
    assert re.search(
        r"Siltstone's log -+\n.* topic created topic=test-refused-1", refused, re.DOTALL
    )
    assert "topic=before" not in refused
    assert "does not answer" in killed
    shown = re.search(r"Siltstone's log -+\n\(\d+ lines before\)\n((?:.*\n){50})", long)
    assert shown is not None, long
    assert shown[1].count("topic created") == 50
    assert "Siltstone's log" not in without
    assert not re.search(r"^\S*siltstone/\S+\.py:\d+", said, re.MULTILINE), said


def test_a_broker_that_a_test_ended_by_itself(tmp_path: Path) -> None:
    """By its number, past the fixture: the tests after it have a broker all the same."""
    code = """
import os
import signal

def test_it_dies(kafka):
    os.kill(kafka.pid, signal.SIGKILL)
    kafka._daemon.process.wait()

def test_after(kafka, kafka_topic):
    assert kafka.topics() == [kafka_topic]
"""
    said = run(tmp_path, code)

    assert "2 passed" in said, said


def test_a_broker_that_does_not_start(tmp_path: Path) -> None:
    """Each test that wants it has an error with the sentence; others run."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def kafka_settings():\n"
        "    return {'num.partitions': 0}\n"
    )
    said = run(tmp_path, "def test_it(kafka): pass\ndef test_other(): pass\n", "-p", "no:asyncio")

    assert "1 passed, 1 error" in said, said
    assert "num.partitions is 0; it must be at least 1" in said
    assert not re.search(r"^\S+\.py:\d+", said, re.MULTILINE), said


def test_a_project_with_a_fixture_of_that_name(tmp_path: Path) -> None:
    """Its own wins, and nothing is started."""
    code = """
import pytest

@pytest.fixture
def kafka():
    return "mine"

def test_it(kafka, request):
    assert kafka == "mine"
"""
    said = run(tmp_path, code)

    assert "1 passed" in said, said


def test_a_run_of_an_older_pytest_is_not_stopped() -> None:
    """Pluggy before 1.2, as in Debian 12, knows no ``wrapper``: nobody's tests would run."""
    hooks = [each for each in vars(plugin).values() if hasattr(each, "pytest_impl")]

    assert len(hooks) > 1
    assert not [each for each in hooks if each.pytest_impl.get("wrapper")]


def test_a_run_without_it_imports_the_plugin_alone(tmp_path: Path) -> None:
    """Every run of pytest has the plugin, where Siltstone is installed: two milliseconds."""
    code = """
import sys

def test_it():
    ours = {name for name in sys.modules if name.partition(".")[0] == "siltstone"}
    assert ours == {"siltstone", "siltstone.testing", "siltstone.testing.plugin"}
"""
    said = run(tmp_path, code)

    assert "1 passed" in said, said


def test_each_public_name_is_found_when_it_is_asked_for() -> None:
    """The package imports none of them before; a wrong name is an error as in any module."""
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name
    with pytest.raises(ImportError, match="brokr"):
        exec("from siltstone.testing import brokr")
