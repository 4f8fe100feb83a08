"""The transports: pinned files, a broker's Fetch, or an archive.

The option ``transport`` chooses, else the visible folders: a log directory that a broker serves is
pinned, one that no broker serves is an archive. If only an address is given, the broker is asked
for its directory; if that is not visible here, the records come by Fetch.
"""

from dataclasses import replace
from pathlib import Path

from siltstone.pipeline.client.pins import BrokerRefuses, find_control, topics
from siltstone.pipeline.errors import BadOption, PipelineError
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.transports.archive import ArchiveSource
from siltstone.pipeline.transports.pinned import PinnedSource
from siltstone.pipeline.transports.source import Source
from siltstone.storage.directory.lock import is_held


def open_source(options: ReadOptions) -> Source:
    """Return the source that the options ask for.

    Raises:
        BadOption: the options do not say where the topics are.
        SourceUnavailable: the place holds no log directory.
    """
    if options.transport == "auto" and options.bootstrap and not (options.data or options.archive):
        from siltstone.pipeline.transports.fetch import find_data  # noqa: PLC0415 - the wire protocol

        options = replace(options, data=find_data(options))
    name = options.transport if options.transport != "auto" else choose(options)
    if name == "pinned":
        return PinnedSource(options)
    if name == "fetch":
        from siltstone.pipeline.transports.fetch import FetchSource  # noqa: PLC0415 - likewise

        return FetchSource(options)
    return ArchiveSource(options)


def choose(options: ReadOptions) -> str:
    """Return the transport for the folders that are visible here.

    Raises:
        BadOption: the options name no place.
    """
    if options.archive:
        return "archive"
    if options.data and Path(options.data).is_dir():
        return "pinned" if is_served(options) else "archive"
    if options.bootstrap:
        return "fetch"
    if options.data:
        raise BadOption(
            f"data={options.data} is no folder here; name the log directory as this machine sees "
            "it, or give kafka.bootstrap.servers to read over the network"
        )
    raise BadOption(
        "no option says where the topics are: give data (the broker's log directory), archive (one "
        "that no broker serves), or kafka.bootstrap.servers"
    )


def is_served(options: ReadOptions) -> bool:
    """Tell whether a broker works in the log directory, here or on another machine."""
    data = Path(options.data)
    if is_held(data):
        return True
    try:
        topics(find_control(data, options.control))
    except BrokerRefuses:
        return True
    except PipelineError:
        return False
    return True


__all__ = ["Source", "choose", "open_source"]
