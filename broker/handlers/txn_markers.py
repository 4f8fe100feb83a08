"""WriteTxnMarkers (27), versions 1-2: an administrator writes markers (KIP-98, KIP-664).

v2 the ``transaction.version`` whose rules check the epoch (KIP-890). In a cluster a coordinator
sends this request to end transactions. Here only ``kafka-transactions abort`` sends it, for a
transaction that hangs because its coordinator does not know it.
"""

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import ALTER, CLUSTER, CLUSTER_ACTION
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.markers import Outcome
from siltstone.broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages import write_txn_markers
from siltstone.storage.log.log import Log


async def write(
    context: RequestContext, request: write_txn_markers.WriteTxnMarkersRequest
) -> write_txn_markers.WriteTxnMarkersResponse:
    """Write each marker to each of its partitions."""
    may_write = context.sees(ALTER, CLUSTER) or context.may(CLUSTER_ACTION, CLUSTER)
    share = LoopShare()
    markers = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            partitions = []
            for index in topic.partition_indexes:
                code = errors.ClusterAuthorizationFailed.code
                if may_write:
                    code = await _write(context, share, marker, topic.name, index)
                partitions.append(write_txn_markers.WritableTxnMarkerPartitionResult(index, code))
                await share.rest()
            topics.append(write_txn_markers.WritableTxnMarkerTopicResult(topic.name, partitions))
        markers.append(write_txn_markers.WritableTxnMarkerResult(marker.producer_id, topics))
        await share.rest()
    return write_txn_markers.WriteTxnMarkersResponse(markers=markers)


async def _write(
    context: RequestContext,
    share: LoopShare,
    marker: write_txn_markers.WritableTxnMarker,
    topic: str,
    index: int,
) -> ErrorCode:
    outcome = Outcome(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
    )
    try:
        if marker.producer_id < 0:
            raise errors.InvalidProducerIdMapping(f"{marker.producer_id} is the id of no producer")
        log = context.services.topics.find_log(topic, index)
        if marker.transaction_version >= FIRST_WITH_EPOCH_BUMP:
            _check_epoch(log, marker)
        if context.services.transactions().markers.write(log, outcome):
            await share.wait_for(context.services.io.run(log.flush))
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def _check_epoch(log: Log, marker: write_txn_markers.WritableTxnMarker) -> None:
    """Refuse a marker whose epoch is not above the data's: it belongs to an earlier transaction."""
    entry = log.producers.producers.get(marker.producer_id)
    if (
        entry is not None
        and entry.transaction_first_offset >= 0
        and marker.producer_epoch <= entry.epoch
    ):
        raise errors.InvalidProducerEpoch(
            f"a marker with epoch {marker.producer_epoch} cannot end the transaction that producer "
            f"{marker.producer_id} has open with epoch {entry.epoch}"
        )
