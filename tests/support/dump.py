"""Faults that Kafka's own dump tool finds in partition folders."""

import re
from pathlib import Path

from tests.support.kafka import KafkaTools

DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPLAINT = re.compile(
    r"mismatch|non-consecutive|isvalid: false|out of order|corrupt|invalid|not found|could not"
    r"|error|exception|trailing|failed|larger than|unknown",
    re.IGNORECASE,
)
# Printed for every file that does not begin at offset 0, Kafka's own included.
HARMLESS = re.compile(r"^\s*-1 is followed by \d+|^Non-consecutive offsets in ")
# Printed for a batch without records, which Kafka's cleaner leaves, too.
EMPTY_BATCHES = re.compile(
    r"^Found timestamp mismatch in .*\n"
    r"(?:\s+Index timestamp: -?\d+, log timestamp: -1\n)+(?!\s+Index timestamp)",
    re.MULTILINE,
)
PAIR = re.compile(r"^\s*(-?\d+) is followed by (\d+)$")

FILES_AT_ONCE = 400


def dump(
    tools: KafkaTools, folders: list[Path], *options: str, suffixes: tuple[str, ...] = DUMPED
) -> str:
    """Run DumpLogSegments over every file of the folders that it can read."""
    files = [
        str(path)
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in suffixes and path.stat().st_size
    ]
    said = ""
    for some in batched(files):
        done = tools.try_run("DumpLogSegments", *options, "--files", ",".join(some), timeout=120)
        said += f"{done.stdout}{done.stderr}exit code {done.returncode}\n"
    return said


def batched(files: list[str]) -> list[list[str]]:
    """Split the files into lists that each fit into one argument of a command (128 KiB)."""
    count = FILES_AT_ONCE
    return [files[start : start + count] for start in range(0, len(files), count)]


def complaints(tools: KafkaTools, folders: list[Path]) -> list[str]:
    """Return every line that speaks of a fault, over deep iteration and the index check."""
    return _complaints_in(_dump_thoroughly(tools, folders))


def complaints_about_cleaned(tools: KafkaTools, folders: list[Path]) -> list[str]:
    """Return the complaints, except about gaps and empty batches, which a cleaner causes."""
    said = EMPTY_BATCHES.sub("", _dump_thoroughly(tools, folders))
    return [line for line in _complaints_in(said) if not PAIR.match(line)]


def _dump_thoroughly(tools: KafkaTools, folders: list[Path]) -> str:
    indexes = (".index", ".timeindex")
    said = dump(tools, folders, "--deep-iteration")
    return said + dump(tools, folders, "--index-sanity-check", suffixes=indexes)


def _complaints_in(said: str) -> list[str]:
    found = []
    for line in said.splitlines():
        pair = PAIR.match(line)
        gap = pair is not None and pair[1] != "-1"
        code = line.startswith("exit code ") and line != "exit code 0"
        if gap or code or (COMPLAINT.search(line) and not HARMLESS.match(line)):
            found.append(line)
    return found
