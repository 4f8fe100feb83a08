"""Replays: what a table or a topic holds, back into a topic."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption, Refused, SourceUnavailable
from siltstone.pipeline.jobs.export import ExportSpec, export
from siltstone.pipeline.jobs.replay import ReplaySpec, file_of, name_of, replay
from siltstone.pipeline.jobs.replay_progress import PROGRESS_TOPIC
from siltstone.pipeline.sinks.kafka import look_at, make_producer, read_progress
from siltstone.pipeline.sinks.staging import Folder
from tests.support.broker import ADDRESS, SiltstoneProcess, a_process
from tests.support.produced import create_topic, delete_topic, produce
from tests.support.replays import COUNT, Run, fill_source, read_rows, run_with_crashes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


broker = a_process(prepare=fill_source)


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


def test_a_file_elsewhere_in_the_store() -> None:
    """A table may name files of another folder, as a clone does: its keys may not be theirs."""
    files = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    table: Any = SimpleNamespace(home=Folder(files=files, path="t", uri="s3://lake/t"))

    with pytest.raises(BadOption, match=r"a\.parquet is outside of its table's folder"):
        file_of(table, "s3://lake/tt/a.parquet")


def test_goes_on_after_a_crash(broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed is gone on with, and each record arrives exactly once."""
    run = Run(broker, "crash")

    summary, crashes = run_with_crashes(run, monkeypatch, exactly_once=True)

    assert crashes >= 3
    assert summary.skipped
    assert run.rows() == read_rows(broker.bootstrap, "source")


def test_a_topic_that_was_made_again(broker: SiltstoneProcess) -> None:
    """Progress of the topic that had the name before says nothing of the new one."""
    run = Run(broker, "again")
    run(exactly_once=True)
    assert run(exactly_once=True).records == 0
    assert run(exactly_once=True).skipped == COUNT
    delete_topic(broker.bootstrap, run.topic)
    run = Run(broker, run.topic)

    with pytest.raises(Refused, match=r"not the progress of this replay: .* made again; delete"):
        run(exactly_once=True)

    assert run.rows() == []


def test_another_range(broker: SiltstoneProcess) -> None:
    """Records that were never sent are not said to exist; a part of those sent is."""
    run = Run(broker, "range")
    late = {"startingOffsets": '{"source":{"0":100,"1":100}}'}
    sent = run(options=late, exactly_once=True)
    assert (sent.records, sent.skipped) == (COUNT - 200, 0)

    with pytest.raises(Refused, match="it has 100 to 150, and what is asked for begins at 0"):
        run(options={"endingOffsets": '{"source":{"0":50,"1":50}}'}, exactly_once=True)
    with pytest.raises(Refused, match="other records of it are asked for"):
        run(options={**late, "timestampFrom": "2020-01-01"}, exactly_once=True)

    later = {"startingOffsets": '{"source":{"0":120,"1":130}}'}
    assert run(options=later, exactly_once=True).skipped == COUNT - 200
    assert len(run.rows()) == COUNT - 200


def test_progress_beyond_the_targets_end(broker: SiltstoneProcess) -> None:
    """A target that ends before what was acknowledged has lost it."""
    run = Run(broker, "lost-its-end")
    run(exactly_once=True)
    key = f"{name_of(ReplaySpec(source='source', topic=run.topic))}-source-0"
    facts = json.loads(read_progress(broker.bootstrap, {}, [key])[key])
    facts["ends"] = {number: end + 100 for number, end in facts["ends"].items()}
    record = {"key": key, "value": json.dumps(facts), "partition": 0}
    produce(broker.bootstrap, PROGRESS_TOPIC, [record])

    with pytest.raises(Refused, match=r"ends at 15\d, below 25\d, up to which it was sent"):
        run(exactly_once=True)


def test_progress_of_an_earlier_version(broker: SiltstoneProcess) -> None:
    """A position that says of no topic is refused, with what to do."""
    run = Run(broker, "old")
    old = json.dumps({"next": 7})
    spec = ReplaySpec(source="source", topic=run.topic)
    record = {"key": f"{name_of(spec)}-source-0", "value": old, "partition": 0}
    read_progress(broker.bootstrap, {}, [])
    produce(broker.bootstrap, PROGRESS_TOPIC, [record])

    with pytest.raises(Refused, match=r'earlier versions left it \(\{"next": 7\}\); delete that'):
        run(exactly_once=True)

    assert run.rows() == []


def test_a_table_that_was_written_again(broker: SiltstoneProcess, tmp_path: Path) -> None:
    """A file with another one's name is not taken for what was sent."""
    run = Run(broker, "another-file")
    (tmp_path / "t").mkdir()
    for values in ([b"1", b"2"], [b"3", b"4"]):
        table = pa.table({"key": [b"a", b"b"], "value": values, "partition": [0, 1]})
        pq.write_table(table, tmp_path / "t" / "part-0.parquet")
        if values[0] == b"1":
            run(f"parquet:{tmp_path}/t", exactly_once=True)

    with pytest.raises(Refused, match=r"part-0\.parquet was file \w+ then and is file"):
        run(f"parquet:{tmp_path}/t", exactly_once=True)


@pytest.mark.timeout(60)
def test_progress_behind_an_open_transaction(
    broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress that cannot be read in time is an error, for 0 would send everything again."""
    read_progress(broker.bootstrap, {}, [])
    other = make_producer(broker.bootstrap, {}, "another-replay")
    other.init_transactions(10)
    other.begin_transaction()
    other.produce(PROGRESS_TOPIC, key=b"other", value=b"open", partition=0)
    other.flush(10)
    mine = make_producer(broker.bootstrap, {}, "my-replay")
    mine.init_transactions(10)
    mine.begin_transaction()
    mine.produce(PROGRESS_TOPIC, key=b"mine", value=b"7", partition=0)
    mine.commit_transaction(10)
    monkeypatch.setattr("siltstone.pipeline.sinks.kafka._PROGRESS_SECONDS", 2.0)

    with pytest.raises(SourceUnavailable, match=r"could not be read within 2 s \(a transaction"):
        read_progress(broker.bootstrap, {}, ["mine"])
    other.abort_transaction(10)

    assert read_progress(broker.bootstrap, {}, ["mine", "other"]) == {"mine": b"7"}


def test_rate(broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes a second, and not more: it waits for the rest of the time."""
    waits: list[float] = []
    monkeypatch.setattr("siltstone.pipeline.jobs.replay_task.time.sleep", waits.append)
    run = Run(broker, "slow")

    summary = run(rate=100)

    assert sum(waits) >= summary.sent_bytes / 100 / 2
    assert len(run.rows()) == COUNT


def test_partitions_by_key(broker: SiltstoneProcess) -> None:
    """Keys may choose partitions again, as the Java client would; a key stays in one."""
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
        for look in (partial(look_at, topic="t"), partial(read_progress, keys=["k"])):
            with pytest.raises(SourceUnavailable, match=r"no way in at .* Authentication failed"):
                look(at, login)
    finally:
        process.close()
