"""The coordinator's one loop timer."""

from pathlib import Path

import uvloop

from siltstone.broker.coordination.timers import Timer
from tests.support.services import ServicesOnDisk


def test_a_deadline_that_is_over_is_met_on_uvloop_too(tmp_path: Path) -> None:
    """Its handles do not tell their time once that has come; nothing may depend on it."""

    async def work() -> list[str]:
        home = await ServicesOnDisk(tmp_path / "home").open()
        timers = home.services.groups().timers
        fired: list[str] = []
        Timer(timers).start(0, lambda: fired.append("a"))
        Timer(timers).start(-1, lambda: fired.append("b"))
        for _ in range(100):
            home.clock.advance(1)
            home.services.groups()._run_timers()
        await home.close()
        return fired

    assert sorted(uvloop.run(work())) == ["a", "b"]
