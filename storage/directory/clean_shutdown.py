"""``.kafka_cleanshutdown``: a file that exists only between a clean stop and the next start.

Its existence says that every log of the directory was flushed and closed; its content has no
meaning (Kafka: ``CleanShutdownFileHandler``).
"""

from pathlib import Path

from siltstone.storage import files

_CONTENT = b'{"version":0,"brokerEpoch":-1}'


def mark(log_directory: Path) -> None:
    """Write the mark of a clean stop. Blocks."""
    files.replace_file(log_directory / files.CLEAN_SHUTDOWN, _CONTENT)


def take(log_directory: Path) -> bool:
    """Tell whether the last stop was clean, and delete the mark. Blocks.

    Call it before loading any log: a crash while loading must count as unclean (KAFKA-10471). The
    directory is fsynced even without a mark: an earlier start may have been killed between the
    deletion of the mark and the fsync.
    """
    path = log_directory / files.CLEAN_SHUTDOWN
    is_marked = files.exists(path)
    if is_marked:
        files.unlink(path)
    files.fsync_directory(log_directory)
    return is_marked
