"""UnregisterBroker and UnregisterController, with the codes of Apache Kafka 4.4.0."""

import pytest

from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from siltstone.protocol.messages.unregister_controller import UnregisterControllerRequest
from tests.support.ask import ask
from tests.support.services import ServicesOnDisk


@pytest.mark.parametrize(
    ("node", "of_broker", "of_controller"),
    [
        (7, ErrorCode.broker_id_not_registered, ErrorCode.controller_id_not_registered),
        (-1, ErrorCode.broker_id_not_registered, ErrorCode.controller_id_not_registered),
        (1, ErrorCode.invalid_request, ErrorCode.invalid_request),
    ],
)
async def test_no_node_is_unregistered(
    home: ServicesOnDisk, node: int, of_broker: ErrorCode, of_controller: ErrorCode
) -> None:
    """Others do not exist; this one stays, where Kafka would let its only broker go."""
    broker = await ask(home, 64, UnregisterBrokerRequest(node))
    controller = await ask(home, 94, UnregisterControllerRequest(node))

    assert (broker.error_code, controller.error_code) == (of_broker, of_controller)
    assert broker.error_message
    assert controller.error_message
