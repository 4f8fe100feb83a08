"""StreamsGroupTopologyDescriptionUpdate (93). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class TopologyDescriptionNode(NamedTuple):
    name: Annotated[str, "string"] = ""
    node_type: Annotated[int, "int8"] = 0
    source_topics: Annotated[Sequence[str], "[]string"] = ()
    sink_topic: Annotated[str | None, "string null"] = None
    stores: Annotated[Sequence[str], "[]string"] = ()
    successors: Annotated[Sequence[str], "[]string"] = ()

class TopologyDescriptionSubtopology(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    nodes: Annotated[Sequence[TopologyDescriptionNode], "[]struct"] = ()

class TopologyDescriptionGlobalStore(NamedTuple):
    source: Annotated[TopologyDescriptionNode, "struct"] = TopologyDescriptionNode()
    processor: Annotated[TopologyDescriptionNode, "struct"] = TopologyDescriptionNode()

class TopologyDescription(NamedTuple):
    subtopologies: Annotated[Sequence[TopologyDescriptionSubtopology], "[]struct"] = ()
    global_stores: Annotated[Sequence[TopologyDescriptionGlobalStore], "[]struct"] = ()

class StreamsGroupTopologyDescriptionUpdateRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
    topology_epoch: Annotated[int, "int32"] = 0
    topology_description: Annotated[TopologyDescription, "struct"] = TopologyDescription()
REQUEST = Message(93, 0, 0, 0, StreamsGroupTopologyDescriptionUpdateRequest)

class StreamsGroupTopologyDescriptionUpdateResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
RESPONSE = Message(93, 0, 0, 0, StreamsGroupTopologyDescriptionUpdateResponse)
