"""``make soak HOURS=2``: real clients and real disks for hours, one checker, curves of the broker.

One broker is never killed: the curves are its memory, its descriptors and the time that an
acknowledgement takes. Another one is killed with SIGKILL, in service and in its starts, and its
disk is filled, round after round; each round ends with the check of every record. What was done is
kept in a folder, so that a soak goes on where it was left.
"""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.support.broker import SiltstoneProcess
from tests.support.campaign import SETTINGS, Campaign
from tests.support.clients.confluent import Confluent
from tests.support.load import CONNECTION, Load, read_all
from tests.support.tiny_disk import SiltstoneOnDisk, TinyDisk

ROUND_SECONDS = 300.0
SAMPLE_SECONDS = 10.0
PINGS = 200
"""How many acknowledgements a sample is of."""
CALM_SECONDS = 2400.0
"""The memory of the steady broker is judged from then on."""
MOST_GROWTH = 1.03
DISK = "256m"
FULL_CHANCE = 0.1
CALM = {"log.segment.bytes": "4000000", "log.cleaner.backoff.ms": "1000", **SETTINGS}


class Steady:
    """A broker that is never killed, its clients, and what is measured of it."""

    def __init__(self, root: Path) -> None:
        self.broker = SiltstoneProcess(root / "steady", CALM)
        self.broker.start()
        self.began = time.monotonic()
        self.chance = Random(0)
        self.pinging = Producer({"bootstrap.servers": self.broker.bootstrap, **CONNECTION})
        Confluent(self.broker.bootstrap).create("pings", 1, {"cleanup.policy": "compact"})
        self.loads: list[Load] = []

    def begin(self, number: int) -> None:
        """Make the topic of a round, with two producers."""
        topic = f"round-{number}"
        Confluent(self.broker.bootstrap).create(topic, 3, {})
        self.loads = [
            Load(codec, self.broker.bootstrap, topic, 3, codec) for codec in ("none", "lz4")
        ]

    def step(self) -> None:
        """Send some records."""
        for load in self.loads:
            load.send(200, self.chance)

    def sample(self) -> dict[str, float]:
        """Return its figures: seconds of its life, bytes, descriptors, and milliseconds."""
        taken = []
        for number in range(PINGS):
            began = time.perf_counter()
            self.pinging.produce("pings", b"%d" % number, b"key-%d" % (number % 7))
            assert self.pinging.flush(60) == 0
            taken.append(time.perf_counter() - began)
        taken.sort()
        descriptors = len(list(Path(f"/proc/{self.broker.daemon.pid}/fd").iterdir()))
        return {
            "life": time.monotonic() - self.began,
            "memory": self.broker.resident_bytes,
            "descriptors": descriptors,
            "p99_ms": taken[PINGS * 99 // 100] * 1000,
        }

    def judge(self) -> int:
        """Compare what can be read with what was acknowledged; delete the topic of the round."""
        for load in self.loads:
            load.finish()
        there = read_all(self.broker.bootstrap, self.loads[0].places)
        for load in self.loads:
            load.check(there)
        topic = self.loads[0].places[0].topic
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.delete_topics([topic])[topic].result(60)
        return sum(load.count for load in self.loads)


class Stormy:
    """A broker on a small disk that is killed, and whose disk is full now and then."""

    def __init__(self, root: Path, seed: int) -> None:
        self.disk = TinyDisk(root, DISK)
        self.broker = SiltstoneOnDisk(root, self.disk, SETTINGS)
        self.broker.start()
        self.campaign = Campaign(self.broker, seed)
        self.kills = self.full = 0

    def step(self) -> None:
        """Kill the broker, or fill its disk, and judge."""
        if self.campaign.chance.random() < FULL_CHANCE:
            self.disk.fill()
            self.full += 1
            end = time.monotonic() + 3.0
            while time.monotonic() < end:
                self.campaign.send()
            self.disk.make_room()
        else:
            self.kills += self.campaign.live()
        self.campaign.judge()

    def finish(self) -> int:
        """Have all acknowledged, copied and judged; return the records."""
        self.campaign.finish()
        assert self.broker.stop() == 0
        return sum(load.count for load in self.campaign.loads)

    def close(self) -> None:
        """End the broker, and release the disk."""
        self.broker.close()
        self.disk.close()


class Soak:
    """Rounds, and the folder with what they came to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.rounds = self._read("rounds.jsonl")

    def _read(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _keep(self, name: str, row: dict[str, Any]) -> None:
        with (self.folder / name).open("a") as file:
            file.write(json.dumps(row) + "\n")

    @property
    def seconds(self) -> float:
        """How long all rounds took."""
        return float(sum(each["seconds"] for each in self.rounds))

    def run(self, seconds: float) -> None:
        """Play rounds until all took so long; one that is cut off counts as not played."""
        if self.seconds >= seconds:
            return
        shutil.rmtree(self.folder / "steady", ignore_errors=True)
        steady = Steady(self.folder)
        try:
            while self.seconds < seconds:
                row = self._play(steady, len(self.rounds), min(ROUND_SECONDS, seconds))
                self.rounds.append(row)
                self._keep("rounds.jsonl", row)
                print(f"{self.seconds / 3600:.2f} h: {json.dumps(row)}", flush=True)
            assert steady.broker.stop() == 0
        finally:
            steady.broker.close()

    def _play(self, steady: Steady, number: int, seconds: float) -> dict[str, Any]:
        began = sampled = time.monotonic()
        steady.begin(number)
        with tempfile.TemporaryDirectory(prefix="siltstone-soak-") as root:
            stormy = Stormy(Path(root), number)
            try:
                while time.monotonic() - began < seconds:
                    steady.step()
                    stormy.step()
                    if time.monotonic() - sampled > SAMPLE_SECONDS:
                        sampled = time.monotonic()
                        self._keep("samples.jsonl", {"round": number, **steady.sample()})
                records = stormy.finish() + steady.judge()
            except BaseException as error:
                error.add_note(f"in round {number} after {stormy.kills} kills")
                raise
            finally:
                stormy.close()
        return {
            "seconds": round(time.monotonic() - began),
            "records": records,
            "kills": stormy.kills,
            "full disks": stormy.full,
        }

    def report(self) -> int:
        """Print the figures and draw the curves; return 1 if the memory has grown."""
        samples = self._read("samples.jsonl")
        total = {
            name: sum(each[name] for each in self.rounds)
            for name in ("records", "kills", "full disks")
        }
        print(f"{self.seconds / 3600:.2f} hours in {len(self.rounds)} rounds: {total}")
        (self.folder / "curves.svg").write_text(draw(samples))
        print(f"curves: {self.folder / 'curves.svg'}")
        calm = [each["memory"] for each in samples if each["life"] > CALM_SECONDS]
        if not calm:
            print(f"no life of the steady broker was longer than {CALM_SECONDS / 60:.0f} minutes")
            return 0
        growth = max(calm) / calm[0]
        print(f"memory after {CALM_SECONDS / 60:.0f} minutes: at most {growth:.3f} of the first")
        return int(growth > MOST_GROWTH)


def draw(samples: Sequence[dict[str, float]]) -> str:
    """Return the curves as SVG, one below the other, each from 0 to its maximum."""
    width, height, lines = 900, 160, []
    for row, name in enumerate(("memory", "descriptors", "p99_ms")):
        values = [each[name] for each in samples] or [0.0]
        top, bottom = row * (height + 30) + 20, (row + 1) * (height + 30) - 10
        most = max(values) or 1.0
        step = width / max(1, len(values) - 1)
        points = " ".join(
            f"{at * step:.1f},{bottom - value / most * height:.1f}"
            for at, value in enumerate(values)
        )
        lines.append(f'<text x="4" y="{top}">{name}: 0 to {most:,.1f}</text>')
        lines.append(f'<polyline points="{points}" fill="none" stroke="black"/>')
    size = f'viewBox="0 0 {width} {3 * (height + 30)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(lines)}</svg>\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="of all rounds together (2)")
    parser.add_argument("--folder", type=Path, default=Path(".cache/soak"))
    options = parser.parse_args(arguments)
    soak = Soak(options.folder.absolute())
    with contextlib.suppress(KeyboardInterrupt):
        soak.run(options.hours * 3600)
    return soak.report()


if __name__ == "__main__":
    sys.exit(main())
