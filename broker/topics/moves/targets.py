"""Whether a partition may go to a log directory, in the order in which Kafka looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.errors import (
    InvalidTopic,
    KafkaStorageError,
    LogDirNotFound,
    ReplicaNotAvailable,
    UnknownTopicOrPartition,
)
from siltstone.storage.moving.future_log import has_room_for_name

if TYPE_CHECKING:
    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.storage.directory.log_directory import LogDirectory
    from siltstone.storage.log.log import Log
    from siltstone.storage.manager import LogManager
    from siltstone.storage.topic_partition import TopicPartition


class LogDirTargets:
    """The log directories and partitions as AlterReplicaLogDirs names them (loop only)."""

    def __init__(self, logs: LogManager, topics: TopicRegistry) -> None:
        self._logs = logs
        self._topics = topics

    def find_directory(self, topic_partition: TopicPartition, path: str) -> LogDirectory:
        """Return the log directory of a path.

        Raises:
            InvalidTopic: The name of the topic leaves no room for that of a copy's folder.
            LogDirNotFound: None of log.dirs has this absolute path.
            KafkaStorageError: It takes no writes.
        """
        if not has_room_for_name(topic_partition):
            raise InvalidTopic(
                f"the name of {topic_partition} is too long for the folder of a copy; it can not "
                "be moved"
            )
        for directory in self._logs.directories:
            if str(directory.path) == path:
                if directory.client_refusal is not None:
                    raise directory.refuse()
                return directory
        known = ", ".join(str(each.path) for each in self._logs.directories)
        raise LogDirNotFound(f"{path!r} is none of log.dirs, which are {known}")

    def find_log(self, topic_partition: TopicPartition, directory: LogDirectory) -> Log:
        """Return the log of a partition.

        One that does not exist gets made in the directory, should it ever be, as Kafka has it.

        Raises:
            UnknownTopicOrPartition: There is no such partition.
            ReplicaNotAvailable: It is not served here.
            KafkaStorageError: Its log directory failed.
        """
        topic = self._topics.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < topic.partitions:
            self._logs.prefer(topic_partition, directory)
            raise UnknownTopicOrPartition(f"there is no partition {topic_partition}")
        log = topic.logs[topic_partition.partition]
        if log is None:
            raise ReplicaNotAvailable(f"{topic_partition} is not served here")
        if log.directory.failure is not None:
            raise log.directory.refuse()
        return log

    def check_all_online(self, topic_partition: TopicPartition) -> None:
        """Refuse a new copy while a directory is offline that may hold one already, as Kafka does.

        Raises:
            KafkaStorageError: One is.
        """
        offline = [str(each.path) for each in self._logs.directories if each.failure is not None]
        if offline:
            raise KafkaStorageError(
                f"{topic_partition} can not be moved while log directories are offline: "
                f"{', '.join(offline)}; check the disks and restart"
            )
