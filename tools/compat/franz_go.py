"""franz-go: the tests of its package kgo, all but those of its ETL and chaos runs.

The sources come from the Go module proxy; Go itself checks them against the digests in go.sum.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tools.compat.suite import Outcome, cached, execute, prepare, tool

VERSION = "v1.22.1"
SUM = "h1:J7Xixbb7k0Itl39eaBot5PIblZh9IL3ZKYgo2yzlf40="
MODULE = "github.com/twmb/franz-go"
LEFT_OUT = re.compile("ETL|chaos", re.IGNORECASE)
ASKS = "TestClient_ProduceLargeMessages"  # learns the broker's release, by which others skip
TIMEOUT = 180  # seconds a test


class FranzGo:
    """kgo's tests, compiled once into one program."""

    name: ClassVar[str] = "franz-go"
    settings: ClassVar[Mapping[str, str] | None] = {"group.initial.rebalance.delay.ms": "0"}

    def __init__(self) -> None:
        self._folder = Path()
        self._sources = Path()

    def build(self) -> None:
        """Fetch the module of the pinned sum, compile its tests."""
        go = tool("go", "golang")
        self._folder = cached(f"franz-go-{VERSION}")
        download = prepare(
            [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"], cwd=self._folder
        )
        module = json.loads(download)
        if module["Sum"] != SUM:
            raise LookupError(f"{MODULE}: its sum is {module['Sum']}, pinned is {SUM}")
        self._sources = Path(module["Dir"]) / "pkg" / "kgo"
        if not self._program.exists():
            prepare([go, "test", "-c", "-o", str(self._program), "."], cwd=self._sources)

    @property
    def _program(self) -> Path:
        return self._folder / "kgo.test"

    def tests(self) -> list[str]:
        """Return all but the ETL and chaos tests."""
        names = prepare([str(self._program), "-test.list", "^Test"], cwd=self._sources).split()
        return [name for name in names if not LEFT_OUT.search(name)]

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run one test function with all its subtests."""
        code = execute(
            [str(self._program), "-test.v", "-test.run", f"^({ASKS}|{test})$"],
            log,
            cwd=self._sources,
            environ={"KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1"},
            timeout=TIMEOUT,
        )
        if code != 0:
            return Outcome.FAILED
        return Outcome.SKIPPED if f"--- SKIP: {test} " in log.read_text() else Outcome.PASSED
