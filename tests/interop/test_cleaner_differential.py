"""Apache Kafka's cleaner and ours over the same folders: what is left is the same, pass by pass.

`DIFFERENTIAL_FOLDERS` says how many folders, `DIFFERENTIAL_SEED` with which they begin; a failure
names its seed. `make differential` runs a hundred.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.differential import ORDERS, Twins
from tests.support.dump import complaints_about_cleaned
from tests.support.kafka import KafkaJars, KafkaTools
from tests.support.kafka_cleaner import KafkaCleaner

FOLDERS = int(os.environ.get("DIFFERENTIAL_FOLDERS") or 10)
FIRST_SEED = int(os.environ.get("DIFFERENTIAL_SEED") or 0)
MET = (
    *(f"codec {codec}" for codec in range(5)),
    *("superseded", "tombstone_expired", "marker", "aborted", "null_key"),
    *("full map", "horizon set", "rebuilt", "emptied", "merged", "open transaction", "alike"),
)

pytestmark = [
    pytest.mark.client,
    pytest.mark.java,
    pytest.mark.timeout(180 + 3 * FOLDERS),
    pytest.mark.usefixtures("no_fsync"),
]


@pytest.fixture
def kafka(kafka_jars: KafkaJars, tmp_path: Path) -> Iterator[KafkaCleaner]:
    """Kafka's cleaner, in a JVM of this test."""
    with KafkaCleaner(kafka_jars, tmp_path) as cleaner:
        yield cleaner


def test_both_leave_the_same(tmp_path: Path, kafka: KafkaCleaner, kafka_tools: KafkaTools) -> None:
    """The same selection, survivors, markers and end of each pass; the dump tool takes ours."""
    happened: Counter[str] = Counter()
    cleaned = []
    for seed in range(FIRST_SEED, FIRST_SEED + FOLDERS):
        twins = Twins(tmp_path / str(seed), seed, kafka)
        try:
            twins.live()
        except BaseException as error:
            error.add_note(f"DIFFERENTIAL_SEED={seed} DIFFERENTIAL_FOLDERS=1")
            raise
        happened += twins.happened
        cleaned.append(tmp_path / f"{ORDERS.topic}-{seed}")
        twins.ours.rename(cleaned[-1])
    found = complaints_about_cleaned(kafka_tools, cleaned)

    print(f"{FOLDERS} folders from seed {FIRST_SEED}:", dict(sorted(happened.items())))  # noqa: T201  # what a campaign met, with pytest -s
    assert found == []
    if FOLDERS >= 10:
        assert [what for what in MET if happened[what] < 5] == []
