"""One run: a set is cleaned from end to end, and the system says what it cost.

Both brokers are judged by what can be seen from outside: the checkpoint that tells how far a log is
clean, and /proc. A pass begins when the broker says so; both do.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.clean import homes
from bench.clean.homes import TOPIC, Contender
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.topic_partition import TopicPartition
from tests.support.folders import batches
from tests.support.waiting import at_least, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.brokers import Broker
    from bench.cases import Result
    from bench.clean.sets import DataSet

OTHERS: Final = "cores of others"
HISTORY: Final = "cleaner-history.jsonl"
_BEGINNING = re.compile(r"^(\d+) INFO .*Beginning cleaning of log ", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")
_LIMIT_SECONDS = 300
_PARTITION = TopicPartition(TOPIC, 0)
_GB = 1e9


def others_cpu_seconds(*pids: int) -> float:
    """Return the processor time of the whole machine less that of some processes and of this one.

    What a host takes away counts, too.
    """
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _waiting, *rest = map(int, words)
    own = os.times()
    mine = own.user + own.system + own.children_user + own.children_system
    return (
        (user + nice + system + sum(rest)) / _TICKS
        - mine
        - sum(Usage.of(pid).cpu_seconds for pid in pids)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Use of a process since it began; memory is its peak."""

    cpu_seconds: float
    read_bytes: int
    written_bytes: int
    peak_mib: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Return what a process has used so far."""
        process = Path(f"/proc/{pid}")
        user, system = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
        counts = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
        status = (process / "status").read_text()
        return cls(
            cpu_seconds=(int(user) + int(system)) / _TICKS,
            read_bytes=int(counts["rchar"]),
            written_bytes=int(counts["wchar"]),
            peak_mib=int(status.partition("VmHWM:")[2].split()[0]) / 1024,
        )


def measure_pass(contender: Contender, data_set: DataSet) -> Result:
    """Start a broker on a set, have it cleaned to its active segment, and end it."""
    with homes.opened(contender, data_set) as broker:
        folder = broker.folder / str(_PARTITION)
        *closed, active = homes.segments_of(folder)
        size = sum(path.stat().st_size for path in closed)
        goal = int(active.stem)
        homes.warm(broker)
        pid = broker.daemon.pid
        before, others, began = Usage.of(pid), others_cpu_seconds(pid), time.monotonic()
        homes.compact(broker)
        _wait_until_clean(broker, goal)
        ended = time.time()
        after = Usage.of(pid)
        others = (others_cpu_seconds(pid) - others) / (time.monotonic() - began)
        begins = list(beginnings(broker))
        records = _records_in(folder, active.name)
        left = sum(path.stat().st_size for path in homes.segments_of(folder)[:-1])
    seconds = ended - begins[0]
    cpu = after.cpu_seconds - before.cpu_seconds
    read = after.read_bytes - before.read_bytes
    written = after.written_bytes - before.written_bytes
    gigabytes = size / _GB
    return {
        "MB/s": size / seconds / 1e6,
        "records/s": data_set.records / seconds,
        "CPU s/GB": cpu / gigabytes,
        "CPU us/record": cpu * 1e6 / data_set.records,
        "peak MiB": after.peak_mib,
        "read GB": read / _GB,
        "written GB": written / _GB,
        "passes": len(begins),
        "left records": records,
        "left MB": left / 1e6,
        "set MB": size / 1e6,
        "written/read": written / max(1, read),
        "wall s": seconds,
        OTHERS: others,
    }


def beginnings(broker: Broker) -> Iterator[float]:
    """Yield when each pass began, in seconds since the epoch."""
    history = broker.folder / HISTORY
    if history.exists():
        for line in history.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "begin":
                yield event["started_ms"] / 1000
    for found in _BEGINNING.finditer(broker.daemon.printed()):
        yield int(found[1]) / 1000


def clean_offset(broker: Broker, partition: int = 0) -> int:
    """Return how far a partition is clean."""
    offsets = OffsetCheckpoint(broker.folder, files.CLEANER_OFFSETS).read_or_empty()
    return offsets.get(TopicPartition(TOPIC, partition), 0)


def _wait_until_clean(broker: Broker, goal: int) -> None:
    def look() -> int:
        offset = clean_offset(broker)
        if offset < goal and not broker.daemon.running:
            raise RuntimeError(f"the broker has ended:\n{broker.daemon.printed()[-2000:]}")
        return offset

    wait_until(look, f"a pass up to {goal}", at_least(goal), timeout=_LIMIT_SECONDS)


def _records_in(folder: Path, active: str) -> int:
    """Return how many records are left below the active segment, markers too."""
    last = int(Path(active).stem)
    return sum(batch.records for batch in batches(folder) if batch.base_offset < last)
