"""Requests of a test to a broker about topics and groups, over Kafka's protocol.

A test may use several threads: only one request is on its way at a time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.net.faults import EXEMPT
from siltstone.pipeline.client.wire import Exchange, Wire
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.protocol.errors import ErrorCode, error_name
from siltstone.protocol.messages import (
    create_topics,
    delete_groups,
    delete_topics,
    incremental_alter_configs,
    list_groups,
    metadata,
)
from siltstone.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from siltstone.protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.protocol.messages.list_groups import ListGroupsRequest
from siltstone.protocol.messages.metadata import MetadataRequest
from siltstone.testing.errors import AskedInVain, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__tracebackhide__ = True
_CREATE: Final = Exchange(create_topics.REQUEST, create_topics.RESPONSE, 7)
_DELETE: Final = Exchange(delete_topics.REQUEST, delete_topics.RESPONSE, 6)
_METADATA: Final = Exchange(metadata.REQUEST, metadata.RESPONSE, 12)
_GROUPS: Final = Exchange(list_groups.REQUEST, list_groups.RESPONSE, 4)
_DELETE_GROUPS: Final = Exchange(delete_groups.REQUEST, delete_groups.RESPONSE, 2)
_ALTER: Final = Exchange(incremental_alter_configs.REQUEST, incremental_alter_configs.RESPONSE, 1)
_BROKER: Final = 4
_SET: Final = 0


class Admin:
    """Requests over one connection, which the first request opens and which stays open."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._wire: Wire | None = None
        self._lock = threading.Lock()

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic.

        Raises:
            Refused: The topic cannot be created.
        """
        configs = [CreatableTopicConfig(*item) for item in config.items()]
        topic = CreatableTopic(name, partitions, 1, configs=configs)
        (result,) = self._ask(_CREATE, CreateTopicsRequest(topics=[topic])).topics
        _check(f"topic {name}", result.error_code, result.error_message)

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics; a topic that does not exist is no error.

        Raises:
            Refused: A topic cannot be deleted.
        """
        if not names:
            return
        asked = [DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=asked, timeout_ms=30_000)
        for result in self._ask(_DELETE, request).responses:
            if result.error_code != ErrorCode.unknown_topic_or_partition:
                _check(f"topic {result.name}", result.error_code, result.error_message)

    def list_all(self) -> tuple[set[str], set[str]]:
        """Return the names of all topics except the broker's own, and the ids of all groups."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        told, groups = self._ask_at_once((_METADATA, request), (_GROUPS, ListGroupsRequest()))
        topics = {each.name for each in told.topics if not each.is_internal}
        return topics, {each.group_id for each in groups.groups}

    def delete_groups(self, names: Collection[str]) -> None:
        """Delete groups that have no members."""
        if names:
            self._ask(_DELETE_GROUPS, DeleteGroupsRequest(groups_names=list(names)))

    def alter_broker(self, config: Mapping[str, str]) -> None:
        """Change settings of the broker while it runs.

        Raises:
            Refused: The broker does not accept the settings.
        """
        told = self._ask(_METADATA, MetadataRequest(topics=(), allow_auto_topic_creation=False))
        configs = [AlterableConfig(name, _SET, value) for name, value in config.items()]
        resource = AlterConfigsResource(_BROKER, str(told.controller_id), configs)
        answer = self._ask(_ALTER, IncrementalAlterConfigsRequest(resources=[resource]))
        (result,) = answer.responses
        _check(", ".join(config), result.error_code, result.error_message)

    def close(self) -> None:
        """Close the connection; the next request opens another. Idempotent."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _ask(self, exchange: Exchange, request: Any) -> Any:
        (answer,) = self._ask_at_once((exchange, request))
        return answer

    def _ask_at_once(self, *asked: tuple[Exchange, Any]) -> list[Any]:
        """Send requests one after the other without waiting, and return their answers."""
        with self._lock:
            try:
                if self._wire is None:
                    self._wire = Wire(self._address, {}, EXEMPT)
                for exchange, request in asked:
                    self._wire.send(exchange, request)
                return [self._wire.take(exchange) for exchange, _ in asked]
            except BaseException as error:
                self.close()  # an answer that comes late must not answer the next request
                if isinstance(error, SourceUnavailable):
                    host, port = self._address
                    why = getattr(error.__cause__, "strerror", None) or error.__cause__
                    raise AskedInVain(
                        f"the broker at {host}:{port} does not answer ({why}); "
                        "restart() starts one that was killed"
                    ) from None
                raise


def _check(what: str, code: int, message: str | None) -> None:
    if code:
        sentence = f"{what}: {message or 'the broker refuses'} ({error_name(code)})"
        raise Refused(code, sentence)
