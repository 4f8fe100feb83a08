"""Apache Kafka's own cleaner in a JVM without a broker: folder by folder, pass by pass."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.java_program import compile_program
from tests.support.kafka import KafkaJars

MAIN = "org.apache.kafka.storage.internals.log.CleanerDriver"


class Selected(NamedTuple):
    """The part that Kafka takes for cleanable, in offsets and bytes."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int


class Cleaned(NamedTuple):
    """A pass in Kafka's words."""

    end_offset: int
    map_keys: int
    map_records_read: int
    records_written: int
    invalid_records: int


class KafkaCleaner:
    """A JVM that opens one folder at a time and cleans it, at times that the caller sets."""

    def __init__(self, jars: KafkaJars, root: Path) -> None:
        classes = compile_program(jars, "CleanerDriver")
        command = jars.command("once", MAIN)
        command[command.index("-cp") + 1] += f":{classes}"
        self._errors = root / "driver.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def __enter__(self) -> Self:
        """Do nothing: the JVM starts by itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def open(
        self, folder: Path, config: Mapping[str, object], *, is_clean: bool, start: int, now_ms: int
    ) -> tuple[int, int]:
        """Open a partition folder and return its log end and last stable offset."""
        settings = ";".join(f"{name}={value}" for name, value in config.items())
        stop = "clean" if is_clean else "killed"
        end_offset, stable_offset = self._ask("open", folder, settings, stop, start, now_ms)
        return end_offset, stable_offset

    def clean(
        self, checkpoint: int | None, *, now_ms: int, memory: int, load_factor: float, buffer: int
    ) -> tuple[Selected, Cleaned | None]:
        """Select and clean; no pass is made where nothing is cleanable."""
        from_offset = "-" if checkpoint is None else checkpoint
        numbers = self._ask("clean", from_offset, now_ms, memory, load_factor, buffer)
        return Selected(*numbers[:4]), Cleaned(*numbers[4:]) if len(numbers) > 4 else None

    def close(self) -> None:
        """Close the folder as a clean stop does."""
        self._ask("close")

    def _ask(self, *words: object) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        verdict, *rest = self._process.stdout.readline().rstrip("\n").split("\t")
        if verdict not in {"ok", "at"}:
            raise RuntimeError(f"Kafka: {rest}\n{self._errors.read_text()[-4000:]}")
        return [int(each) for each in rest]
