"""The settings and the steps of a history, from its seed.

A step is its number and its kind; what it does it draws from a stream of its own. So a history
without some of its steps does the same in the others.
"""

import errno
from random import Random
from typing import NamedTuple

from siltstone.config.topic import FOREVER, TopicConfig

STEPS = 60

WEIGHTS = {
    "produce": 14,
    "round": 4,
    "retry": 2,
    "transact": 3,
    "end": 2,
    "roll": 2,
    "flush": 2,
    "work": 5,
    "time": 2,
    "check": 2,
    "checkpoint": 2,
    "delete_records": 1,
    "retain": 1,
    "clean": 1,
    "alter": 1,
    "move": 1,
    "recreate": 1,
    "judge": 1,
    "fault": 3,
    "mend": 2,
}
"""How often each kind comes, times 0 to 3, which a history draws for each."""

ENDS = ("stop", "kill", "cut", "dies")
"""How a process ends: a stop, a kill between steps, a power failure, a kill within a step."""

FAULTS = (
    *[("pwrite", error) for error in (errno.ENOSPC, errno.EDQUOT, errno.EIO)],
    *[("create", error) for error in (errno.ENOSPC, errno.ENOSPC, errno.EMFILE, errno.EIO)],
    *[("fsync", error) for error in (errno.EIO, errno.ENOSPC)],
    *[("open", error) for error in (errno.EMFILE, errno.EIO)],
    *[("rename", error) for error in (errno.ENOSPC, errno.EIO)],
    ("mkdir", errno.ENOSPC),
    ("unlink", errno.EIO),
    ("rmdir", errno.EIO),
    ("ftruncate", errno.EIO),
    ("fallocate", errno.ENOSPC),
)
PATHS = ("", "", "", ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint")


class Step(NamedTuple):
    """One step of a history."""

    number: int
    kind: str


def make_steps(seed: int) -> list[Step]:
    """Return the steps of a history."""
    chance = Random(f"{seed} steps")
    weights = {kind: weight * chance.choice([0, 1, 1, 3]) for kind, weight in WEIGHTS.items()}
    weights["produce"] = WEIGHTS["produce"]
    kinds = chance.choices(list(weights), list(weights.values()), k=STEPS)
    for _ in range(chance.randint(1, 3)):
        kinds[chance.randrange(STEPS // 4, STEPS)] = chance.choice(ENDS)
    return [Step(number, kind) for number, kind in enumerate(kinds)]


def make_config(chance: Random) -> TopicConfig:
    """Return the settings of a topic."""
    return TopicConfig(
        cleanup_policy=chance.choice([("delete",)] * 4 + [("compact",), ("compact", "delete")]),
        segment_bytes=chance.choice([300, 700, 2_000, 5_000, 20_000]),
        segment_ms=chance.choice([300, FOREVER, FOREVER]),
        segment_index_bytes=chance.choice([24, 120, 1 << 20]),
        index_interval_bytes=chance.choice([0, 200, 4096]),
        flush_messages=chance.choice([1, 1, 3, FOREVER, FOREVER]),
        preallocate=chance.random() < 0.3,
        message_timestamp_type=chance.choice(["CreateTime"] * 4 + ["LogAppendTime"]),
        retention_ms=chance.choice([-1, 60_000]),
        retention_bytes=chance.choice([-1, 3_000]),
        file_delete_delay_ms=chance.choice([0, 60_000]),
        delete_retention_ms=0,
    )
