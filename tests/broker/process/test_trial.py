"""Options for tests: whom they are refused, and what there is without them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http.control.token import read_token
from siltstone.broker.process.trial import NO_TRIAL, Trial
from siltstone.broker.server import Broker
from siltstone.config.errors import StartError
from siltstone.config.load import load
from siltstone.config.server import ServerConfig
from siltstone.storage.clock import Clock, ShiftedClock
from tests.support.http_client import ask

CLOCK, FAULTS = Trial(moves_clock=True), Trial(makes_faults=True)


def test_only_the_option_has_a_clock_that_moves() -> None:
    """Every other broker has the system's."""
    assert isinstance(CLOCK.make_clock(), ShiftedClock)
    assert type(FAULTS.make_clock()) is Clock
    assert type(NO_TRIAL.make_clock()) is Clock


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_fine(host: str) -> None:
    """Nobody else reaches it."""
    server = ServerConfig(listeners=(f"PLAINTEXT://{host}:0",), http_listener=f"{host}:0")

    assert Trial(moves_clock=True, makes_faults=True).find_fault(server) is None


LAN = "PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT"
HERE, THERE = "PLAINTEXT://127.0.0.1:0", "LAN://10.0.0.1:0"


@pytest.mark.parametrize(
    ("settings", "name", "place"),
    [
        ({"listeners": (HERE, THERE), "listener_security_protocol_map": LAN}, "LAN", "10.0.0.1"),
        (
            {"listeners": ("PLAINTEXT://:0",), "advertised_listeners": ("PLAINTEXT://here:1",)},
            "PLAINTEXT",
            "every interface",
        ),
        ({"http_listener": "0.0.0.0:0"}, "http.listener", "0.0.0.0"),
    ],
)
@pytest.mark.parametrize(("trial", "option"), [(CLOCK, "--test-clock"), (FAULTS, "--test-faults")])
def test_where_others_reach_it_is_not(
    settings: dict[str, Any], name: str, place: str, trial: Trial, option: str
) -> None:
    """Kafka's port or ours: a client that moves the clock deletes data."""
    server = ServerConfig(**settings)

    assert trial.find_fault(server) == (
        f"{option} is refused: {name} listens on {place}, where others reach it; listen on "
        f"127.0.0.1, or leave {option} out"
    )
    assert NO_TRIAL.find_fault(server) is None


def make_broker(folder: Path, trial: Trial, *sets: str) -> Broker:
    """Return a broker on free ports, not yet started."""
    ports = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0"]
    layers = load(None, {}, [f"log.dirs={folder}", *ports, *sets])
    return Broker(layers, trial.make_clock(), asyncio.Event(), trial)


async def test_the_start_is_refused(tmp_path: Path) -> None:
    """Before anything is bound."""
    broker = make_broker(tmp_path, CLOCK, "http.listener=0.0.0.0:0")

    with pytest.raises(StartError, match="--test-clock is refused: http"):
        await broker.start()
    await broker.stop()


@pytest.mark.parametrize(
    ("trial", "pages"),
    [(NO_TRIAL, set()), (CLOCK, {"clock", "reset"}), (FAULTS, {"fail", "slow", "reset"})],
)
async def test_pages_are_there_by_option(trial: Trial, pages: set[str], tmp_path: Path) -> None:
    """And each of them wants the token."""
    broker = make_broker(tmp_path, trial)
    await broker.start()
    port = int(broker.describe()["http"].rpartition(":")[2])
    token = f"Authorization: Bearer {read_token(tmp_path)}\r\n"
    answers = {
        (name, headers): await ask(port, f"/v1/trial/{name}", "POST", headers=headers)
        for name in ("clock", "fail", "slow", "reset")
        for headers in ("", token)
    }
    await broker.stop()

    assert {name for (name, _), answer in answers.items() if answer.status != 404} == pages
    assert {answers[name, ""].status for name in pages} <= {401}
    assert {answers[name, token].status for name in pages} <= {200, 400}
