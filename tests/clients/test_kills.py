"""SIGKILL at random moments under load: nothing acknowledged is lost, doubled or torn.

`KILLS` sets how often the broker dies, `KILLS_SEED` the choices of a run. The page cache outlives a
killed process, so every byte that the broker handed to the kernel must count. Kills at every call
of the disk, and power failures, are the simulator's (`tests/simulator`); here process, disk and
clients are real.
"""

import contextlib
import os
import time

import pytest

from tests.support.campaign import SETTINGS, Campaign
from tests.support.oracle import make_broker

KILLS = int(os.environ.get("KILLS") or 40)
SEED = int(os.environ.get("KILLS_SEED") or time.time_ns() % 2**32)

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300 + 8 * KILLS)]


def test_a_broker_is_killed_again_and_again(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each record is found once, where its producer was told, and has one copy in the end."""
    with contextlib.closing(
        make_broker(request, tmp_path_factory.mktemp("kills"), SETTINGS)
    ) as broker:
        broker.start()
        campaign = Campaign(broker, SEED)
        kills = 0
        try:
            while kills < KILLS:
                kills += campaign.live()
                campaign.judge()
            campaign.finish()
        except BaseException as error:
            error.add_note(f"KILLS_SEED={SEED}, after {kills} kills")
            raise
        assert broker.stop() == 0
