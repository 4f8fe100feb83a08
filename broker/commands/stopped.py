"""``siltstone explain`` over the folders of a broker that does not run. Reads only.

Settings come from the file, the environment, the command line and the catalogue, or for topics that
it lacks from Apache Kafka's metadata log, as they would at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from siltstone.broker.http.control.cleaner_pages import prediction_answer
from siltstone.broker.http.control.explaining import find_what_is_off, unreadable
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.topics.settings.stored import keep_obeyed, with_stored
from siltstone.cleaner import selection
from siltstone.cleaner.checkpoints import CleanerCheckpoints
from siltstone.cleaner.errors import CorruptSegment
from siltstone.cleaner.explaining.explain import PartitionView, explain
from siltstone.cleaner.explaining.explanation import OpenTransaction
from siltstone.cleaner.explaining.last_pass import Pass, last_pass_of
from siltstone.cleaner.explaining.stopped_log import StoppedLog, read_stopped_log
from siltstone.cleaner.history.history import KIND, read_history
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.describe import find_place
from siltstone.config.layers import Layers
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.found_folders import find_moved
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.opening import find_readable, live_folders
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from siltstone.broker.commands.asking import Which


def find_folders(
    directories: Iterable[Path], meant: Iterable[Which]
) -> tuple[Which, dict[TopicPartition, Path]]:
    """Return the likeliest meaning of a name that exists, and its partition folders. Blocks.

    Raises:
        LookupError: There is no such partition.
    """
    folders: dict[TopicPartition, Path] = {}
    for each, path in live_folders(directories):
        known = folders.setdefault(each, path)
        if known is not path:
            with suppress(LogDirError):  # the next start refuses both
                folders[each] = find_moved(each, known, path)
    for which in meant:
        found = {each: path for each, path in folders.items() if which.has(*each)}
        if found or not which.topic:
            return which, found
    raise LookupError("there is no such partition")


class StoppedBroker:
    """The log directories of some settings."""

    def __init__(self, layers: Layers) -> None:
        """Read the catalogue.

        Raises:
            LogDirError: The catalogue is damaged, or no log directory can be read.
        """
        self._clock = Clock()
        self._directories = find_readable(
            [Path(name).absolute() for name in layers.server().log_dirs]
        )
        catalog = Catalog(self._directories)
        catalog.load()
        self._topics = catalog.state.topics
        self._last: dict[TopicPartition, Pass] = {}
        self._layers = with_stored(layers, catalog.state)
        self._kafkas = OnFirstUse(self._read_kafkas)

    def explain(self, meant: Iterable[Which], *, is_dry_run: bool) -> dict[str, Any]:
        """Return what a running broker would answer. Blocks.

        Raises:
            LookupError: There is no such partition.
        """
        _, found = find_folders(self._directories, meant)
        self._last = dict(self._last_passes())
        checkpoints = CleanerCheckpoints(self._directories)
        answers = [
            self._explain(each, path, checkpoints, is_dry_run=is_dry_run)
            for each, path in sorted(found.items())
        ]
        return {"now_ms": self._clock.now_ms(), "partitions": answers}

    def history(self, meant: Iterable[Which]) -> list[dict[str, Any]]:
        """Return the passes that the cleaner's files record, the oldest first. Blocks.

        Raises:
            LookupError: There is no such partition.
        """
        which, _ = find_folders(self._directories, meant)
        events = [
            event
            for directory in self._directories
            for event in read_history(directory)
            if event.get("event") == KIND and which.has(event["topic"], event["partition"])
        ]
        return sorted(events, key=lambda event: int(event["started_ms"]))

    def _explain(
        self,
        topic_partition: TopicPartition,
        path: Path,
        checkpoints: CleanerCheckpoints,
        *,
        is_dry_run: bool,
    ) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        try:
            overrides = self._overrides(topic_partition.topic, path)
            log = self._read(topic_partition, path, self._layers.topic(overrides))
        except (ValueError, OSError, CorruptMessage, MalformedCheckpoint) as error:
            return unreadable(*topic_partition, error)
        last = self._last.get(topic_partition)
        view = PartitionView(
            snapshot=log.snapshot(checkpoints.get(path.parent, topic_partition)),
            now_ms=now_ms,
            find_place=partial(find_place, self._layers, overrides),
            last_pass=last,
            transaction=OpenTransaction.first_of(log.producers.open_transactions),
            cleaner_off=find_what_is_off(self._layers),
        )
        answer = explain(view).as_json()
        answer["size_bytes"] = sum(segment.size for segment in log.segments)
        answer["last_pass"] = None if last is None else last._asdict()
        if is_dry_run and log.config.is_compacted:
            answer["prediction"] = self._predict(log, view)
        return answer

    def _read(self, each: TopicPartition, path: Path, config: TopicConfig) -> StoppedLog:
        starts = OffsetCheckpoint(path.parent, files.LOG_START_OFFSETS).read_or_empty()
        return read_stopped_log(path, config, starts.get(each), self._clock.now_ms())

    def _overrides(self, topic: str, path: Path) -> Mapping[str, str]:
        """Return the topic's own settings, those of Apache Kafka if the start has to adopt it."""
        entry = self._topics.get(topic)
        if entry is not None:
            return entry.overrides
        metadata = PartitionMetadata.read(path)
        found = {} if metadata is None else self._kafkas.get().get(metadata.topic_id, {})
        return keep_obeyed(found, self._layers)

    def _read_kafkas(self) -> Mapping[UUID, Mapping[str, str]]:
        from siltstone.broker.topics.settings.metadata_log import (  # noqa: PLC0415  # seldom needed
            read_topic_settings,
        )

        return read_topic_settings(self._directories)

    def _last_passes(self) -> Iterator[tuple[TopicPartition, Pass]]:
        """Yield the passes in the history, the oldest first."""
        for directory in self._directories:
            for event in read_history(directory):
                topic, partition = str(event.get("topic")), event.get("partition")
                known = self._topics.get(topic)
                last = last_pass_of(event)
                if last is None or not isinstance(partition, int):
                    continue
                if known is None or event.get("topic_id") == str(known.id):
                    yield TopicPartition(topic, partition), last

    def _predict(self, log: StoppedLog, view: PartitionView) -> dict[str, Any]:
        cleanable = selection.find_cleanable(view.snapshot, view.now_ms)
        if not cleanable.is_worth_a_pass:
            return {"fault": "there is nothing to clean now"}
        settings = CleanerSettings.of(self._layers.server())
        cleaner = Cleaner.of(settings, self._clock, Throttle(self._clock))
        began = self._clock.monotonic()
        try:
            work = LogToClean.of(log, cleanable.first_dirty_offset, cleanable.pass_limit)
            prediction = cleaner.dry_run(work, lambda: None)
        except (CorruptSegment, OSError) as error:
            return {"fault": f"{type(error).__name__}: {error}"}
        finally:
            cleaner.close()
        return prediction_answer(prediction, self._clock.monotonic() - began)
