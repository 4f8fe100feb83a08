"""The history of a git repository as a changelog on a topic, and the proof from the topic alone.

    git_changelog.py produce --topic history REPOSITORY
    git_changelog.py verify  --topic history REPOSITORY

`produce` walks the first-parent history from the root to the head and writes one record for each
changed file: the key is the path, the value says blob id, mode and size as JSON, a deleted file is
a tombstone (null), the time is the commit's and the header `commit` its id. `verify` reads the
topic from its first to its last record, keeps the last value of every path, and compares that
with `git ls-tree -r` of the head. One partition keeps the order; the topic is a compacted one, so
its older values may go and the proof still holds.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DELETED = "D"
COMMIT = "commit"


class Blob(NamedTuple):
    """The content of a path; a submodule has no size."""

    id: str
    mode: str
    size: int | None


class Change(NamedTuple):
    """One path in one commit; None where the commit deletes it."""

    commit: str
    time_ms: int
    path: bytes
    blob: Blob | None


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git in the repository and return what it prints."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], input=stdin, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def changes(repository: Path, revision: str) -> Iterator[Change]:
    """Yield every change of the first-parent history, oldest first."""
    log = git(
        repository, "-c", "log.showRoot=true", "log", "-z", "--reverse", "--first-parent",
        "--diff-merges=first-parent", "--raw", "--no-renames", "--no-abbrev",
        f"--format={COMMIT} %H %ct", revision, "--",
    )  # fmt: skip
    fields = iter(log.split(b"\0"))
    found = []
    commit, time_ms = "", 0
    for field in fields:
        # A commit's own line is followed by its changes: ":mode mode id id status", then the path.
        text = field.lstrip(b"\n").decode(errors="replace")
        if text.startswith(f"{COMMIT} "):
            _, commit, seconds = text.split()
            time_ms = int(seconds) * 1000
        elif text.startswith(":"):
            _, mode, _, blob, status = text.split()
            found.append((commit, time_ms, next(fields), blob, mode, status))
    sizes = blob_sizes(repository, {blob for *_, blob, _, status in found if status != DELETED})
    for commit, time_ms, path, blob, mode, status in found:
        value = None if status == DELETED else Blob(blob, mode, sizes.get(blob))
        yield Change(commit, time_ms, path, value)


def blob_sizes(repository: Path, blobs: set[str]) -> dict[str, int]:
    """Return the size of every blob that the repository has."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    answers = git(repository, "cat-file", "--batch-check", stdin=asked).decode().splitlines()
    rows = [answer.split() for answer in answers]
    return {row[0]: int(row[2]) for row in rows if row[1] == "blob"}


def tree(repository: Path, revision: str) -> dict[bytes, Blob]:
    """Return every path of a revision as `git ls-tree -r` lists it."""
    held = {}
    for line in git(repository, "ls-tree", "-r", "-z", "-l", revision).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, blob, size = facts.decode().split()
        held[path] = Blob(blob, mode, None if size == "-" else int(size))
    return held


def produce(options: argparse.Namespace) -> int:
    """Write the history to a new topic."""
    with KafkaAdminClient(bootstrap_servers=options.bootstrap_server) as admin:
        try:
            new = {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}
            admin.create_topics({options.topic: new}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return fail(f"topic {options.topic} exists; name another with --topic")
    producer = KafkaProducer(
        bootstrap_servers=options.bootstrap_server,
        compression_type=None if options.compression == "none" else options.compression,
        linger_ms=50,
    )
    now_ms = int(time.time() * 1000)
    sent = [
        producer.send(
            options.topic,
            partition=0,
            key=change.path,
            value=change.blob and json.dumps(change.blob._asdict()).encode(),
            timestamp_ms=min(max(change.time_ms, 0), now_ms),
            headers=[(COMMIT, change.commit.encode())],
        )
        for change in changes(options.repository, options.revision)
    ]
    producer.close()
    offsets = [future.get(timeout=60).offset for future in sent]
    print(f"{options.topic}: {len(offsets)} changes written with {options.compression}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Compare the last value of every path on the topic with the head."""
    count, held = read(options.bootstrap_server, options.topic)
    wanted = tree(options.repository, options.revision)
    for path in sorted(held.keys() | wanted.keys()):
        if held.get(path) != wanted.get(path):
            name = path.decode(errors="replace")
            fail(f"{name}: the topic says {held.get(path)}, git says {wanted.get(path)}")
    if held != wanted:
        return 1
    head = git(options.repository, "rev-parse", options.revision).decode().strip()
    print(f"{options.topic}: {count} records give the {len(held)} files of {head}")
    return 0


def read(bootstrap_server: str, topic: str) -> tuple[int, dict[bytes, Blob]]:
    """Return the number of records on the topic and the last blob of every path."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_server, group_id=None, auto_offset_reset="none"
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    position = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    consumer.seek(partition, position)
    count = 0
    held: dict[bytes, Blob] = {}
    while position < end:
        for record in consumer.poll(timeout_ms=10_000).get(partition, []):
            count += 1
            if record.value is None:
                held.pop(record.key, None)
            else:
                held[record.key] = Blob(**json.loads(record.value))
        position = consumer.position(partition)
    consumer.close()
    return count, held


def fail(sentence: str) -> int:
    """Say what is wrong and return the exit code for it."""
    print(f"git_changelog: {sentence}", file=sys.stderr)
    return 1


def main() -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description="A git repository's history on a topic.")
    parser.add_argument("command", choices=("produce", "verify"))
    parser.add_argument("repository", type=Path)
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="git-changelog")
    parser.add_argument("--compression", choices=CODECS, default="zstd")
    parser.add_argument("--revision", default="HEAD")
    options = parser.parse_args()
    try:
        return {"produce": produce, "verify": verify}[options.command](options)
    except KafkaError as error:
        return fail(f"{options.bootstrap_server}: {error}")


if __name__ == "__main__":
    sys.exit(main())
