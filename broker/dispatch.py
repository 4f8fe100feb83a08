"""From a frame to its answer: find the row, check the version, decode, handle, encode.

An answer is bytes, a list of bytes and file ranges, nothing (acks=0), or a coroutine when the
request has to wait. A request meets its only ``except Exception`` here: a fault in a handler is
logged with its traceback once and closes that connection, since no answer fits every API.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any

from broker.api import APIS, BY_KEY
from broker.context import RequestContext
from broker.dispatch_kernels import Gate, Route
from broker.response_errors import find_errors
from protocol.errors import ProtocolError
from protocol.headers import API_VERSIONS, FIRST_FLEXIBLE
from protocol.kio_messages import decode_request, encode_response, preload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.request_stats import RequestStats
    from protocol.parts import Parts

log = logging.getLogger(__name__)

# These take the frame itself and write the answer: nothing else sees a password.
_RAW = frozenset({17, 36})
# These are read and written by the tables of `protocol.messages`; the others by kio, for now.
TABLED = frozenset(
    {
        0,  # Produce
        1,  # Fetch
        2,  # ListOffsets
        3,  # Metadata
        8,  # OffsetCommit
        9,  # OffsetFetch
        10,  # FindCoordinator
        11,  # JoinGroup
        12,  # Heartbeat
        13,  # LeaveGroup
        14,  # SyncGroup
        15,  # DescribeGroups
        16,  # ListGroups
        18,  # ApiVersions
        19,  # CreateTopics
        20,  # DeleteTopics
        21,  # DeleteRecords
        22,  # InitProducerId
        23,  # OffsetForLeaderEpoch
        24,  # AddPartitionsToTxn
        25,  # AddOffsetsToTxn
        26,  # EndTxn
        27,  # WriteTxnMarkers
        28,  # TxnOffsetCommit
        32,  # DescribeConfigs
        33,  # AlterConfigs
        34,  # AlterReplicaLogDirs
        35,  # DescribeLogDirs
        37,  # CreatePartitions
        42,  # DeleteGroups
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        47,  # OffsetDelete
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        60,  # DescribeCluster
        61,  # DescribeProducers
        65,  # DescribeTransactions
        66,  # ListTransactions
        68,  # ConsumerGroupHeartbeat
        69,  # ConsumerGroupDescribe
        74,  # ListConfigResources
        75,  # DescribeTopicPartitions
    }
)
_SERVED = [
    (api.versions[0], api.versions[-1], FIRST_FLEXIBLE[key]) if (api := BY_KEY.get(key)) else None
    for key in range(max(BY_KEY) + 1)
]


class Dispatcher(Gate):
    """Every request passes through here (loop only)."""

    __slots__ = ()

    def __init__(self, stats: RequestStats) -> None:
        routes = {
            api.key: Route(
                api,
                stats.by_key[api.key],
                is_raw=api.key in _RAW and api.key not in TABLED,
                is_tabled=api.key in TABLED,
            )
            for api in APIS
        }
        super().__init__(routes, _SERVED, stats)

    def preload(self) -> Iterator[None]:
        """Import one module per step, so that no first request pays for it.

        Of the messages only the newest versions: all of them are 7 MiB, and an older client's
        first request pays a few milliseconds for its own. They come first, since a handler would
        import several of them in one step.
        """
        by_kio = [api for api in APIS if api.key not in _RAW and api.key not in TABLED]
        yield from preload((api.key, api.versions[-1]) for api in by_kio)
        for route in self._routes.values():
            if route.is_tabled:
                route.load_tables(route.highest)
                yield
            route.load()
            yield

    def _handle(  # noqa: PLR0913, PLR0917
        self,
        connection: Connection,
        route: Route,
        version: int,
        correlation_id: int,
        client_id: str | None,
        buffer: memoryview,
        body: int,
        end: int,
    ) -> Answer | Waiting:
        """Decode to the newest entity, handle, and encode in the version asked."""
        request = decode_request(route.api.key, version, buffer, body, end)
        context = RequestContext(
            rooms=connection.rooms,
            api_key=route.api.key,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            listener=connection.listener.name,
            peer=connection.peer,
            stats=self.stats,
        )
        response = route.handler(context, request)
        if isinstance(response, Coroutine):
            return _encode_later(context, route, response)
        return _encode(context, route, response)

    async def _respond_later(
        self, route: Route, version: int, correlation_id: int, response: Any
    ) -> Answer:
        answer = await response
        return None if answer is None else self.respond(route, version, correlation_id, answer)

    async def _wait(
        self, connection: Connection, route: Route, version: int, reply: Waiting, began: float
    ) -> Answer:
        try:
            answer = await reply
        except ProtocolError as error:
            raise self._explain(connection, route, version, error) from error
        except Exception as error:
            raise self._fault(connection, route, version, error) from error
        route.stats.observe(perf_counter() - began)
        return answer

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> Answer:
        """Answer ApiVersions of a newer kind as every client can read it; close on others.

        Kafka does the same: a client asks ApiVersions first, so it should know better.
        """
        api = BY_KEY.get(key)
        if key == API_VERSIONS:
            from broker.handlers.api_versions import refuse_version  # noqa: PLC0415
            from protocol.messages.api_versions import RESPONSE  # noqa: PLC0415

            refused: Answer = RESPONSE.respond(0, correlation_id, refuse_version())
            return refused
        self.stats.refused += 1
        if api is None:
            raise ProtocolError(f"api={key} version={version} reason=this API is not served")
        raise ProtocolError(
            f"api={api.name} version={version} reason=versions {api.versions[0]} to "
            f"{api.versions[-1]} are served"
        )

    def _explain(
        self, connection: Connection, route: Route, version: int, error: ProtocolError
    ) -> ProtocolError:
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} reason={error}"
        )

    def _fault(
        self, connection: Connection, route: Route, version: int, error: Exception
    ) -> ProtocolError:
        """A fault of ours: its traceback once, and the client learns by a closed connection."""
        log.error(
            "request failed api=%s version=%d peer=%s",
            route.api.name,
            version,
            connection.peer,
            exc_info=error,
        )
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} "
            f"reason=the broker failed: {type(error).__name__}"
        )


async def _encode_later(
    context: RequestContext, route: Route, response: Coroutine[Any, Any, Any]
) -> Answer:
    return _encode(context, route, await response)


def _encode(context: RequestContext, route: Route, response: Any) -> Answer:
    for code in find_errors(response):
        route.stats.failed(code)
    return _joined(
        encode_response(context.api_key, context.version, context.correlation_id, response)
    )


def _joined(parts: Parts) -> bytes | Parts:
    """Return an answer without file ranges as the bytes it is."""
    return parts[0] if len(parts) == 1 and type(parts[0]) is bytes else parts
