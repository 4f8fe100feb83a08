"""DescribeConfigs (32). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribeConfigsResource(NamedTuple):
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    configuration_keys: Annotated[Sequence[str] | None, "[]string null"] = ()

class DescribeConfigsRequest(NamedTuple):
    resources: Annotated[Sequence[DescribeConfigsResource], "[]struct"] = ()
    include_synonyms: Annotated[bool, "bool"] = False
    include_documentation: Annotated[bool, "bool 3+"] = False
REQUEST = Message(32, 1, 4, 4, DescribeConfigsRequest)

class DescribeConfigsSynonym(NamedTuple):
    name: Annotated[str, "string"] = ""
    value: Annotated[str | None, "string null"] = ""
    source: Annotated[int, "int8"] = 0

class DescribeConfigsResourceResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    value: Annotated[str | None, "string null"] = ""
    read_only: Annotated[bool, "bool"] = False
    config_source: Annotated[int, "int8"] = -1
    is_sensitive: Annotated[bool, "bool"] = False
    synonyms: Annotated[Sequence[DescribeConfigsSynonym], "[]struct"] = ()
    config_type: Annotated[int, "int8 3+"] = 0
    documentation: Annotated[str | None, "string 3+ null"] = ""

class DescribeConfigsResult(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    configs: Annotated[Sequence[DescribeConfigsResourceResult], "[]struct"] = ()

class DescribeConfigsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[DescribeConfigsResult], "[]struct"] = ()
RESPONSE = Message(32, 1, 4, 4, DescribeConfigsResponse)
