"""Signals that come when the broker has stopped already."""

import signal

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.waiting import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_exit_code_says_how_it_stopped(siltstone: SiltstoneProcess, number: int) -> None:
    """A signal behind `stopped` does not end the process before it has said so."""
    siltstone.start()
    siltstone.daemon.signal(signal.SIGTERM)
    siltstone.daemon.wait_for("stopped clean=True")

    def ends_beside_signals() -> bool:
        siltstone.daemon.signal(number)
        return not siltstone.daemon.running

    wait_until(ends_beside_signals, "its end")
    assert siltstone.stop() == 0
