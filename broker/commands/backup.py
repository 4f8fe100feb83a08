"""``siltstone backup``: copies all data as of one moment from a running broker, and checks it.

A pin freezes all partitions at one instant (docs/decisions/0011-pins.md), and their logs are copied
from its links. Indexes and snapshots of producers are left out: the first start on the copy builds
them again, as after a kill.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.commands.asking import Channel, NobodyAnswers, Refusal, StartsOrStops
from siltstone.broker.commands.explain_text import counted, size
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import Progress, fail
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.storage.directory.catalog import CatalogState

_CLOCK: Final = Clock()
_LEASE_MS: Final = 600_000
_PIN_SECONDS: Final = 600.0  # each segment gets a link
_CHUNK: Final = 64 << 20
_HISTORY: Final = "cleaner-history.jsonl"  # as in `cleaner.history`, which a command imports late


def add_backup(parser: argparse.ArgumentParser) -> None:
    """Add the option for the target folder."""
    parser.add_argument(
        "target", type=Path, metavar="FOLDER", help="it is made, and must not exist"
    )


def run_backup(options: argparse.Namespace) -> int:
    """Copy everything; return the exit code."""
    layers = read_settings(options)
    target: Path = options.target.absolute()
    if target.exists():
        sys.stderr.write(f"siltstone: {target} exists; name a folder that does not\n")
        return 2
    partial = target.with_name(f"{target.name}.partial")
    if partial.exists():
        sys.stderr.write(f"siltstone: {partial} exists, as a backup that was killed leaves it; ")
        sys.stderr.write("remove it, or name another folder\n")
        return 2
    channel = Channel(layers)
    began = _CLOCK.monotonic()
    try:
        backup = _Backup(
            channel, [Path(each) for each in layers.server().log_dirs], partial, target
        )
        facts = backup.run()
    except StartsOrStops as error:
        return fail(error.advice)
    except NobodyAnswers as error:
        return fail(f"{error.advice}; of a broker that does not run, copy the log directories")
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return fail(f"the backup is not made, {where}{error.strerror or error}")
    seconds = _CLOCK.monotonic() - began
    if options.json:
        sys.stdout.write(json.dumps({**facts, "seconds": round(seconds, 3)}) + "\n")
    else:
        partitions = counted(facts["partitions"], "partition")
        sys.stdout.write(f"{partitions}, {size(facts['bytes'])} in {target}, {seconds:.3g} s\n")
    for fault in facts["faults"]:
        sys.stderr.write(f"siltstone: the backup is as the broker is: {fault}\n")
    return 1 if facts["faults"] else 0


class _Backup:
    """One backup: a pin, and a folder that is given its final name when it is complete."""

    def __init__(
        self, channel: Channel, directories: list[Path], partial: Path, target: Path
    ) -> None:
        self._channel = channel
        self._directories = directories
        self._target = target
        self._partial = partial
        self._pin = ""
        self._renewed = _CLOCK.monotonic()
        self._faults: list[str] = []
        self._bytes = 0
        self._total = 0
        self._progress = Progress()

    def run(self) -> dict[str, Any]:
        """Make the backup, and return what is in it."""
        asked = {"lease_ms": _LEASE_MS, "holder": f"backup to {self._target}"}
        body = json.dumps(asked).encode()
        # Copied before the pin: a receipt of a later pass would not match the segments.
        history = [_read(each / _HISTORY) for each in self._directories]
        before = self._read_catalog()
        self._channel.get("/v1/status")  # a broker that hangs is noticed in time
        answer = self._channel.post("/v1/pins", body=body, timeout_seconds=_PIN_SECONDS)
        manifest = json.loads(answer.body)
        self._pin = manifest["pin"]
        # A pass that began since may have replaced pinned segments of which a receipt tells.
        later = [_read(each / _HISTORY) for each in self._directories]
        begun = [each for some in zip(history, later, strict=True) for each in _begun_since(*some)]
        try:
            self._partial.mkdir(mode=0o700, parents=True)
        except OSError:  # the folder could not be created
            self._release()
            raise
        try:
            self._total = sum(
                segment["size"] for each in manifest["partitions"] for segment in each["segments"]
            )
            try:
                self._copy_all(manifest["partitions"])
            except FileNotFoundError:
                self._renew()  # it says if the pin has ended, with its files
                raise
            self._write_catalog(manifest, before)
            with open(self._partial / _HISTORY, "xb", opener=_create) as written:
                written.write(b"".join((*_merge(history), *begun)))
            os.sync()  # small files that are not logs, up to thousands
            self._renew()  # the pin still exists, so all copied files were pinned
            self._partial.rename(self._target)
            os.sync()
        except BaseException:
            shutil.rmtree(self._partial, ignore_errors=True)
            raise
        finally:
            self._progress.clear()
            self._release()
        return {
            "folder": str(self._target),
            "cluster_id": manifest["cluster_id"],
            "taken_at_ms": manifest["taken_at_ms"],
            "partitions": len(manifest["partitions"]),
            "bytes": self._bytes,
            "faults": self._faults,
        }

    def _read_catalog(self) -> CatalogState | None:
        """Return the topics and settings as the broker has them now, None without a file."""
        from siltstone.storage.directory.catalog import Catalog  # noqa: PLC0415  # storage, only now
        from siltstone.storage.directory.log_directory import LogDirError  # noqa: PLC0415

        catalog = Catalog(self._directories)
        try:
            catalog.load()
        except LogDirError as error:
            raise Refusal(f"the backup is not made: {error}") from error
        return catalog.state if catalog.found else None

    def _copy_all(self, partitions: list[dict[str, Any]]) -> None:
        from siltstone.storage import files  # noqa: PLC0415  # storage, only now
        from siltstone.storage.directory.checkpoint import OffsetCheckpoint  # noqa: PLC0415
        from siltstone.storage.topic_partition import TopicPartition  # noqa: PLC0415

        starts, cleaned = {}, {}
        for each in partitions:
            name = TopicPartition(each["topic"], each["partition"])
            starts[name] = each["log_start_offset"]
            if each["first_dirty_offset"]:
                cleaned[name] = each["first_dirty_offset"]
            self._copy_partition(each)
        OffsetCheckpoint(self._partial, files.LOG_START_OFFSETS).write(starts)
        OffsetCheckpoint(self._partial, files.CLEANER_OFFSETS).write(cleaned)
        for file in (files.META_PROPERTIES, files.USERS, files.ACLS, files.QUOTAS):
            with suppress(FileNotFoundError):
                # Its mode is kept: only the broker may read users and ACLs.
                shutil.copy2(self._directories[0] / file, self._partial / file)

    def _write_catalog(self, manifest: dict[str, Any], before: CatalogState | None) -> None:
        """Write the topics as of the pin, and note which of their partitions the pin lacks."""
        from siltstone.storage.directory.catalog import Catalog  # noqa: PLC0415  # storage, only now

        topics = manifest["topics"]
        after = self._read_catalog()
        if after is not None:
            Catalog([self._partial]).write(_as_pinned(before or after, after, topics))
        copied = {(each["topic"], each["partition"]) for each in manifest["partitions"]}
        for name, facts in topics.items():
            for number in range(facts["partitions"]):
                if (name, number) not in copied:
                    self._faults.append(
                        f"{name}-{number} was set aside by the start, and the copy lacks it"
                    )

    def _copy_partition(self, facts: dict[str, Any]) -> None:
        from siltstone.protocol.names import parse_uuid  # noqa: PLC0415  # only now
        from siltstone.storage import files  # noqa: PLC0415
        from siltstone.storage.directory.checkpoint import MalformedCheckpoint  # noqa: PLC0415
        from siltstone.storage.directory.partition_metadata import PartitionMetadata  # noqa: PLC0415

        pinned = Path(facts["folder"])
        folder = self._partial / pinned.name
        folder.mkdir(mode=0o755)
        for segment in facts["segments"]:
            name = files.segment_file_name(segment["base_offset"])
            self._copy_log(pinned / name, folder / name, segment["size"])
            self._check_log(folder / name)
        live = pinned.parents[2] / pinned.name
        pinned_id = PartitionMetadata(topic_id=parse_uuid(facts["topic_id"]))
        with suppress(FileNotFoundError, MalformedCheckpoint):
            for name in (files.LEADER_EPOCHS, files.PARTITION_METADATA):
                shutil.copy2(live / name, folder / name)
            if PartitionMetadata.read(folder) == pinned_id:
                return
        # The topic was deleted meanwhile, and perhaps made again.
        (folder / files.LEADER_EPOCHS).unlink(missing_ok=True)
        pinned_id.write(folder)

    def _copy_log(self, source: Path, target: Path, size_bytes: int) -> None:
        """Copy the bytes that the log had at the moment of the pin."""
        with source.open("rb") as read, open(target, "xb", opener=_create) as written:
            left = size_bytes
            while left:
                count = os.sendfile(
                    written.fileno(), read.fileno(), size_bytes - left, min(left, _CHUNK)
                )
                if not count:
                    raise OSError(f"{source} is shorter than it was")
                left -= count
                self._bytes += count
                self._go_on()
            if size_bytes:
                os.fsync(written.fileno())

    def _check_log(self, copy: Path) -> None:
        """Check each batch of a copy with code that the broker does not use, and note faults."""
        from siltstone.storage.segment.check import check_log  # noqa: PLC0415  # storage, only now

        for _ in check_log(copy, lambda fault: self._faults.append(f"{copy.parent.name}/{fault}")):
            self._go_on()

    def _go_on(self) -> None:
        """Show the progress, and renew the pin."""
        self._progress.show(f"{size(self._bytes)} of {size(self._total)}")
        if _CLOCK.monotonic() - self._renewed > _LEASE_MS / 1000 / 10:
            self._renew()

    def _renew(self) -> None:
        self._ask("/v1/pins/renew")
        self._renewed = _CLOCK.monotonic()

    def _release(self) -> None:
        with suppress(Refusal, NobodyAnswers):  # the pin ends with its lease
            self._ask("/v1/pins/release")

    def _ask(self, path: str) -> None:
        self._channel.post(path, body=json.dumps({"id": self._pin}).encode())


def _as_pinned(
    before: CatalogState, after: CatalogState, topics: dict[str, dict[str, Any]]
) -> CatalogState:
    """Return the catalogue with the topics of the pin, from its states before and after the pin.

    A start on the copy removes the folders of deleted topics, and sets those of topics with another
    id aside.
    """
    from siltstone.protocol.names import parse_uuid  # noqa: PLC0415  # only now
    from siltstone.storage.directory.catalog import CatalogTopic  # noqa: PLC0415  # likewise

    pinned: dict[str, CatalogTopic] = {}
    for name, facts in topics.items():
        topic_id = parse_uuid(facts["topic_id"])
        found = [state.topics.get(name) for state in (after, before)]
        own = [entry for entry in found if entry is not None and entry.id == topic_id]
        overrides = own[0].overrides if own else {}
        pinned[name] = CatalogTopic(
            id=topic_id, partitions=facts["partitions"], overrides=overrides
        )
    ids = {entry.id for entry in pinned.values()}
    retired = {
        name: after.retired[name]
        for name in after.retired
        if name in before.retired or name not in pinned
    }
    return replace(after, topics=pinned, deleted=after.deleted - ids, retired=retired)


def _merge(histories: list[bytes]) -> Iterator[bytes]:
    """Yield the lines of histories by time: partitions move between their directories."""
    merged = heapq.merge(*map(_events, histories), key=lambda each: int(each[0]["started_ms"]))
    return (line for _, line in merged)


def _events(history: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the events of a history with their lines, without lines that were cut."""
    from siltstone.cleaner.history.history import parse_event  # noqa: PLC0415  # the cleaner, only now

    for line in history.splitlines(keepends=True):
        event = parse_event(line) if line.endswith(b"\n") else None
        if event is not None:
            yield event, line


def _begun_since(before: bytes, after: bytes) -> Iterator[bytes]:
    """Yield the lines of passes that have begun between two readings of a history."""
    known = {line for _, line in _events(before)}
    for event, line in _events(after):
        if line not in known and event.get("event") == "begin":
            yield line


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _create(path: str, flags: int) -> int:
    """Open a file that only its owner may change, whatever the umask of the process is."""
    return os.open(path, flags, 0o644)
