"""Texts that a client sends, and what of them the broker's output has."""

import re
from pathlib import Path

from siltstone.broker.commands.kafka.broker import Broker
from siltstone.pipeline.client.wire import Exchange, Wire
from siltstone.protocol.messages import join_group
from siltstone.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.broker import SiltstoneProcess

FORGED = '1999-01-01T02:59:59.999Z INFO siltstone.audit {"event": "change"}'
SESSION_MS = 20


def test_a_client_id_makes_no_line_of_the_log(tmp_path: Path) -> None:
    """Its member's id has a line break and an escape in it, and the log has neither."""
    settings = {"group.min.session.timeout.ms": "1", "group.initial.rebalance.delay.ms": "0"}
    broker = SiltstoneProcess(tmp_path, settings).start()
    try:
        host, _, port = broker.listener.rpartition(":")
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joining = JoinGroupRequest(
            "billing", SESSION_MS, SESSION_MS, protocol_type="c", protocols=protocols
        )
        with Wire((host, int(port)), {}, f"\x1b[2J\n{FORGED}\n", remedy="") as wire:
            Broker(wire).find_coordinator("billing")
            answer = wire.ask(Exchange(join_group.REQUEST, join_group.RESPONSE, 3), joining)
            silent = broker.daemon.wait_for(r"member is silent group=billing member=(.*)")[1]
        broker.stop()
        printed = broker.daemon.output.read_text()
    finally:
        broker.close()

    assert answer.member_id.startswith(f"\x1b[2J\n{FORGED}\n")
    assert silent.startswith(rf"\x1b[2J\n{FORGED}\n-")
    assert all(line.isprintable() for line in printed.split("\n"))
    assert not re.search("^1999", printed, re.MULTILINE)
