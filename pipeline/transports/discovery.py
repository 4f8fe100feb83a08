"""Finding the folder of a broker of which only the address is known.

A broker says where its log directories are. If one of them is visible here, belongs to the same
cluster and lets this user read the control token, its files can be pinned.
"""

import os
from pathlib import Path

from siltstone.pipeline.client.cluster import Cluster
from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.options import ReadOptions
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties


def find_data(options: ReadOptions) -> str:
    """Return the log directory of a cluster's only broker, empty if it is not visible here."""
    try:
        with Cluster(options.bootstrap, options.kafka) as cluster:
            cluster.leaders([])
            if cluster.node_count > 1:
                return ""  # each broker has some partitions
            directories = cluster.log_directories()
            cluster_id = cluster.cluster_id
    except PipelineError:
        return ""  # reading over the network will report it
    return next((each for each in directories if _is_of(Path(each), cluster_id)), "")


def _is_of(directory: Path, cluster_id: str) -> bool:
    if not os.access(directory / files.CONTROL_TOKEN, os.R_OK):
        return False
    try:
        properties = MetaProperties.read(directory)
    except (OSError, MalformedCheckpoint):
        return False
    return properties is not None and properties.cluster_id == cluster_id
