"""Tables that follow a topic: a git history becomes Parquet and Iceberg tables of its head.

    make demo-pipeline               python -m examples.pipeline_demo [REPOSITORY]
    make demo-pipeline REPO=~/code/project

Starts a broker with its data in a temporary folder, replays most of the history as a changelog,
has it compacted, and takes snapshots on Spark whose rows equal `git ls-tree -r`. Then come the
other commits, an increment, and the proof once more; the older snapshot of the Iceberg table still
shows the older tree. What is shown with a $ can be typed. It takes about a minute, most of which
Spark needs to start.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue

from examples import demo, git_changelog
from siltstone.pipeline.engine import SparkEngine
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, snapshot
from siltstone.pipeline.sinks.table import open_table
from siltstone.pipeline.spark.session import FAST_START, open_session

TOPIC = demo.TOPIC
SHARE_OF_COMMITS = 0.8
Tree = dict[bytes, tuple[str, str]]


def commits(repository: Path) -> list[str]:
    """Return the first-parent history, the oldest first."""
    command = ["git", "-C", str(repository), "rev-list", "--first-parent", "--reverse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode or len(found.stdout.split()) < 2:
        raise SystemExit(
            f"{repository} is no git repository of two commits: {found.stderr.strip()}"
        )
    return found.stdout.split()


def produce(broker: demo.Broker, repository: Path, revisions: str) -> int:
    """Write the changes of some revisions, and return how many there are."""
    producer = KafkaProducer(bootstrap_servers=broker.listener, linger_ms=50)
    count = 0
    for change in git_changelog.changes(repository, revisions):
        blob = change.blob
        value = None if blob is None else json.dumps(blob._asdict()).encode()
        producer.send(TOPIC, key=change.path, value=value, partition=0)
        count += 1
    producer.flush()
    producer.close()
    return count


def held(table: object) -> Tree:
    """Return what a table of Arrow says of every path."""
    rows = table.select(["key", "value"]).to_pylist()  # type: ignore[attr-defined]
    found: Tree = {}
    for row in rows:
        facts = json.loads(row["value"])
        if row["key"] in found:
            raise SystemExit("a path is in the table twice")
        found[row["key"]] = (facts["id"], facts["mode"])
    return found


def read(target: str) -> Tree:
    """Return what a table holds now."""
    import pyarrow.dataset as ds  # noqa: PLC0415  # beside its only use

    return held(ds.dataset([str(path) for path in open_table(target).files()]).to_table())


def tree(repository: Path, revision: str) -> Tree:
    """Return what git says."""
    listed = git_changelog.tree(repository, revision)
    return {path: (blob.id, blob.mode) for path, blob in listed.items()}


def prove(what: str, found: Tree, expected: Tree) -> None:
    """Compare a table with a tree of git's."""
    if found != expected:
        raise SystemExit(f"{what}: {len(found)} paths, and git has {len(expected)} others")
    print(f"{what} equals git ls-tree -r: {len(found)} paths")


def run(repository: Path) -> None:
    """Show it."""
    history = commits(repository)
    early = history[int(len(history) * SHARE_OF_COMMITS) - 1]
    with demo.running() as broker:
        folder = broker.folder.parent
        targets = (f"delta:{folder}/table", f"iceberg:{folder}/warehouse/{TOPIC}")
        admin = KafkaAdminClient(bootstrap_servers=broker.listener)
        # Increments are right as long as a deletion can be read: longer than the demo's default.
        configs = {"cleanup.policy": "compact", "delete.retention.ms": "3600000"}
        new = {"num_partitions": 1, "configs": configs}
        admin.create_topics({TOPIC: new}, wait_for_metadata=True)
        admin.close()

        demo.say(f"the history of {repository} up to {early[:10]}, as a topic that is compacted")
        print(f"{produce(broker, repository, early)} changes of paths")
        broker.run("clean", TOPIC, "--wait")

        demo.say("a Spark session starts")
        session = open_session("demo", conf={"spark.driver.extraJavaOptions": FAST_START})
        engine = SparkEngine(session)
        try:
            for target in targets:
                take(engine, broker, target)
                prove(target.partition(":")[0], read(target), tree(repository, early))

            demo.say("the other commits, and what they change in the tables")
            print(f"{produce(broker, repository, f'{early}..HEAD')} changes of paths")
            for target in targets:
                take(engine, broker, target)
                prove(target.partition(":")[0], read(target), tree(repository, "HEAD"))
        finally:
            session.stop()

        demo.say("the Iceberg table as it was before")
        uri = f"sqlite:///{folder}/warehouse/catalog.db"
        table = load_catalog("siltstone", type="sql", uri=uri).load_table(("default", TOPIC))
        first = table.snapshots()[0].snapshot_id
        older = table.scan(AlwaysTrue(), snapshot_id=first).to_arrow()
        prove(f"snapshot {first}", held(older), tree(repository, early))


def take(engine: SparkEngine, broker: demo.Broker, target: str) -> None:
    """Take a snapshot, an increment if there is one already."""
    words = f"snapshot {TOPIC} --data {broker.folder} --to {target} --incremental"
    print(demo.paint("2", f"$ python -m siltstone.pipeline {words}"), flush=True)
    spec = SnapshotSpec(topic=TOPIC, target=target, incremental=True)
    summary = snapshot(engine, {"data": str(broker.folder)}, spec)
    for line in summary.lines(TOPIC):
        print(line)


def main() -> int:
    """Run the demonstration over the repository that is named, or this one."""
    began = time.monotonic()
    run(Path(sys.argv[1] if len(sys.argv) > 1 else ".").expanduser().resolve())
    print(f"\n{time.monotonic() - began:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
