"""Cases of what stock clients ask: our broker serves each, and recorded applications again."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers import OURS, Broker, make_broker, port_of
from bench.cases import Pace
from bench.clients import messages
from bench.clients.__main__ import record
from bench.clients.cases import ProduceMany, Sessions, asking_cases, many_partition_cases
from bench.clients.everything import Everything
from bench.clients.mixes import Mix, mix_cases
from bench.clients.topics import end_offsets
from bench.connection import Connection, read_answer, request_class
from bench.load import Load
from bench.run import CASES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("cc") or shutil.which("gcc")), reason="cc: no C compiler for bench/load.c"
    ),
]
PACE = Pace(measure=0.1, warm_ours=0.05, warm_peer=0.05)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Our broker, for all tests of this file."""
    made = make_broker(OURS, tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()


@pytest.fixture
def load() -> Load:
    """The generator."""
    return Load()


def test_cases_have_names_of_their_own() -> None:
    """Lines are kept by the names of cases, and cases are chosen by them."""
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.timeout(180)
def test_every_kind_of_request_is_served(broker: Broker) -> None:
    """A rehearsal takes any refusal for a failure."""
    connection = Connection(port_of(broker))
    cases = [dataclasses.replace(case, connections=1) for case in asking_cases()]

    scripts = [case.scripts(broker, connection) for case in cases]

    connection.close()
    assert all(script.steps[0].checks or script.steps[0].answer_size for (script,) in scripts)


@pytest.mark.parametrize("inflight", [1, 5])
def test_many_partitions_are_produced_to(broker: Broker, load: Load, inflight: int) -> None:
    """Each request appends to each of its partitions."""
    case = ProduceMany(
        name="p", connections=2, inflight=inflight, partitions=7, topic="test-produced",
        topic_partitions=20,
    )  # fmt: skip
    case.prepare(load, broker, PACE)
    connection = Connection(port_of(broker))
    before = sum(end_offsets(connection, "test-produced", range(20)).values())
    scripts = case.scripts(broker, connection)
    after = sum(end_offsets(connection, "test-produced", range(20)).values())
    connection.close()

    assert after - before == 7 * sum(len(script.steps) for script in scripts)
    assert case.measure(load, broker, PACE)["requests/s"] > 0


@pytest.mark.parametrize(
    ("moved", "grows", "records"), [(0, False, 0), (3, False, 3), (3, True, 3)]
)
def test_sessions_return_what_is_new(
    broker: Broker, load: Load, moved: int, records: int, *, grows: bool
) -> None:
    """A quiet session has no records; else those partitions have one each, in every answer."""
    case = Sessions(name="s", connections=2, partitions=20, moved=moved, grows=grows)
    case.prepare(load, broker, PACE)
    connection = Connection(port_of(broker))
    scripts = case.scripts(broker, connection)
    answers = [
        read_answer(request_class(messages.FETCH, 18), script.steps[-1].answer[4:])
        for script in scripts
    ]
    before = sum(end_offsets(connection, "ask-lively-20", range(6)).values()) if moved else 0
    rate = case.measure(load, broker, PACE)["requests/s"]
    after = sum(end_offsets(connection, "ask-lively-20", range(6)).values()) if moved else 0
    connection.close()

    returned = [
        [row for topic in answer.responses for row in topic.partitions] for answer in answers
    ]
    assert [len(rows) for rows in returned] == [records] * 2
    assert all(row.records for rows in returned for row in rows)
    assert rate > 0
    assert (after > before) is grows


def test_floors_are_measured(broker: Broker, load: Load, tmp_path: Path) -> None:
    """The server with canned answers gives what the broker gave."""
    case = many_partition_cases()[0]
    case.prepare(load, broker, PACE)

    assert case.measure_floor(load, PACE, tmp_path)["requests/s"] > 0


def test_everything_is_asked_for(load: Load, tmp_path: Path) -> None:
    """Each size has its figures, and somebody else waited meanwhile."""
    pace = Pace(measure=2, warm_ours=0.1, warm_peer=0.1)  # on a busy machine somebody waits long

    found = Everything(sizes=(20, 50)).measure(load, OURS, tmp_path, pace)

    assert found["20 partitions: requests/s"] > 0
    assert found["50 partitions: longest wait of others ms"] > 0


@pytest.mark.parametrize("mix", mix_cases(), ids=lambda mix: mix.name)
@pytest.mark.timeout(120)
def test_recorded_applications_are_played(broker: Broker, load: Load, mix: Mix) -> None:
    """Every recording is served by our broker, without a refusal that is new."""
    alone = dataclasses.replace(mix, connections=1)

    assert alone.measure(load, broker, PACE)["requests/s"] > 0


@pytest.mark.client
@pytest.mark.timeout(120)
def test_what_is_recorded_can_be_played(broker: Broker, load: Load, tmp_path: Path) -> None:
    """A stock client is recorded on our broker and played on another one."""
    record("librdkafka-12", OURS, tmp_path)
    mix = Mix(name="new", path=tmp_path / "librdkafka-12.jsonl.xz", connections=2)

    mix.prepare(load, broker, PACE)

    assert (tmp_path / "mixes.json").exists()
    assert mix.measure(load, broker, PACE)["requests/s"] > 0
