"""Replays: what a table or a topic holds, back into a topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption, SourceUnavailable
from siltstone.pipeline.jobs.export import ExportSpec, export
from siltstone.pipeline.jobs.replay import ReplaySpec, replay
from siltstone.pipeline.sinks.kafka import check_partitions, read_progress
from tests.support.broker import ADDRESS, SiltstoneProcess
from tests.support.produced import create_topic
from tests.support.replays import COUNT, Run, fill_source, read_rows, run_with_crashes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
    """A broker with a topic of every shape of record."""
    process = SiltstoneProcess(tmp_path_factory.mktemp("replay"))
    process.start()
    fill_source(process.bootstrap)
    yield process
    process.close()


def test_topic_into_a_topic(broker: SiltstoneProcess) -> None:
    """Order, partitions, times, headers, null keys and tombstones are kept."""
    run = Run(broker, "copy")

    summary = run()

    assert summary.records == COUNT
    assert run.rows() == read_rows(broker.bootstrap, "source")


def test_table_into_a_topic(broker: SiltstoneProcess, tmp_path: Path) -> None:
    """An export comes back as it was."""
    columns = ("key", "value", "partition", "offset", "timestamp", "headers")
    spec = ExportSpec(target=f"parquet:{tmp_path}/table", columns=columns)
    export(LocalEngine(1), {"data": str(broker.folder), "subscribe": "source"}, spec)
    run = Run(broker, "from-table")

    run(spec.target)

    assert run.rows() == read_rows(broker.bootstrap, "source")


@pytest.mark.parametrize("exactly_once", [False, True])
def test_goes_on_after_a_crash(
    broker: SiltstoneProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    exactly_once: bool,
) -> None:
    """A run that is killed is gone on with; exactly once, and else at least once, in order."""
    run = Run(broker, f"crash-{exactly_once}")
    wanted: dict[str, Any] = {"exactly_once": exactly_once}
    if not exactly_once:
        wanted["progress"] = tmp_path / "progress"

    summary, crashes = run_with_crashes(run, monkeypatch, **wanted)

    expected = read_rows(broker.bootstrap, "source")
    assert crashes >= 3
    assert summary.skipped
    found = run.rows()
    if exactly_once:
        assert found == expected
    else:
        assert list(dict.fromkeys(map(repr, found))) == list(map(repr, expected))


def test_rate(broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes a second, and not more: it waits for the rest of the time."""
    waits: list[float] = []
    monkeypatch.setattr("siltstone.pipeline.jobs.replay_task.time.sleep", waits.append)
    run = Run(broker, "slow")

    summary = run(rate=100)

    assert sum(waits) >= summary.sent_bytes / 100 / 2
    assert len(run.rows()) == COUNT


def test_partitions_by_key(broker: SiltstoneProcess) -> None:
    """Keys may choose partitions anew, as the Java client would; a key stays in one."""
    run = Run(broker, "by-key")

    run(by_key=True)

    places: dict[bytes, set[int]] = {}
    for partition, key, *_ in run.rows():
        if key is not None:
            places.setdefault(key, set()).add(partition)
    assert all(len(each) == 1 for each in places.values())
    assert len(run.rows()) == COUNT


def test_what_can_not_be_sent(
    broker: SiltstoneProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is missing or too small, and a source without rows, are told beforehand."""
    monkeypatch.setattr("siltstone.pipeline.sinks.kafka._SECONDS", 2.0)
    options = {"bootstrap": broker.bootstrap, "data": str(broker.folder), "transport": "pinned"}
    create_topic(broker.bootstrap, "small", partitions=1)

    for topic, words in (("nowhere", "create it first"), ("small", "has 1 partitions")):
        with pytest.raises(BadOption, match=words):
            replay(LocalEngine(1), options, ReplaySpec(source="source", topic=topic))
    with pytest.raises(BadOption, match="no files"):
        replay(
            LocalEngine(1), options, ReplaySpec(source=f"parquet:{tmp_path}/none", topic="small")
        )
    with pytest.raises(BadOption, match="--bootstrap"):
        replay(LocalEngine(1), {}, ReplaySpec(source="source", topic="small"))
    with pytest.raises(SourceUnavailable, match="no broker answers"):
        replay(
            LocalEngine(1),
            {**options, "bootstrap": "127.0.0.1:1", "kafka.socket.timeout.ms": "1000"},
            ReplaySpec(source="source", topic="small"),
        )


def test_a_login_that_is_refused(tmp_path: Path) -> None:
    """The sentence says why there is no way in, not that nobody answers."""
    process = SiltstoneProcess(tmp_path)
    process.settings |= {
        "listeners": f"PLAINTEXT://{process.listener},SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security."
        'plain.PlainLoginModule required user_alice="secret";',
    }
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "alice", "sasl.password": "wrong"}
    try:
        process.start()
        at = process.daemon.wait_for(ADDRESS.format("SASL_PLAINTEXT"))[1]
        for look in (
            partial(check_partitions, topic="t", parts=()),
            partial(read_progress, key="k"),
        ):
            with pytest.raises(SourceUnavailable, match=r"no way in at .* Authentication failed"):
                look(at, login)
    finally:
        process.close()
