"""Standard streams that were closed before the start, as some supervisors leave them."""

from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.waiting import wait_until


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_the_place_of_a_stream(
    siltstone: SiltstoneProcess, tmp_path: Path, closed: str
) -> None:
    """The broker serves and stops as ever; a file of its loop there aborted the process."""
    ready = tmp_path / "ready.json"
    command = [*siltstone.command("serve"), "--ready-file", str(ready)]
    siltstone.daemon.launch(["sh", "-c", f'exec "$@" {closed}', "sh", *command])
    wait_until(ready.exists, "its file")

    streams = Path(f"/proc/{siltstone.daemon.pid}/fd")
    for number, name in enumerate(("<&-", ">&-", "2>&-")):
        if name in closed.split():
            assert (streams / str(number)).readlink() == Path("/dev/null")
    assert siltstone.stop() == 0
