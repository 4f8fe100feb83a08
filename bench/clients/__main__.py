"""Records stock clients: ``python -m bench.clients``; ``make bench-record`` is that.

Each application runs for some seconds against a broker with a recorder in front; its frames go to
``bench/clients/recordings/NAME.jsonl.xz`` and what they were to ``mixes.json`` beside them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.brokers import OURS, PEER, START_SECONDS, make_broker, port_of
from bench.clients.applications import APPLICATIONS, HELPER, Place
from bench.clients.recorder import Recorder
from bench.clients.recording import make_recording, summarize, write
from bench.clients.topics import await_producer_ids
from bench.connection import Connection
from bench.group_cases import await_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDINGS = Path(__file__).parent / "recordings"
MIXES = "mixes.json"
_SPREAD = re.compile(r"\[[\d,\s-]*\]")  # stands in one line


def main(words: Sequence[str]) -> int:
    """Record what is asked for."""
    options = _parse(words)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or APPLICATIONS:
        record(name, options.broker, options.out)
    return 0


def record(name: str, broker_name: str, out: Path) -> None:
    """Record one application on a broker of its own."""
    print(f"recording {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder, Recorder() as recorder:
        settings = {"advertised.listeners": f"PLAINTEXT://{recorder.bootstrap}"}
        broker = make_broker(broker_name, Path(folder) / "broker", settings)
        try:
            broker.start(START_SECONDS)
            recorder.upstream = ("127.0.0.1", port_of(broker))
            connection = Connection(port_of(broker))
            await_coordinator(connection, [f"mix-{name}"])  # a broker that runs has one
            await_producer_ids(connection)
            connection.close()
            recorder.forget()
            place = Path(folder) / "application"
            place.mkdir()
            APPLICATIONS[name](Place(recorder.bootstrap, place, name))
            recording = make_recording(name, recorder.exchanges, HELPER)
        finally:
            broker.close()
    write(recording, out / f"{name}.jsonl.xz")
    path = out / MIXES
    mixes = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    mixes[name] = {"recorded on": broker_name, **summarize(recording)}
    text = json.dumps(dict(sorted(mixes.items())), indent=1)
    text = _SPREAD.sub(lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)
    path.write_text(text + "\n", encoding="utf-8")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.clients", description="Record stock clients.")
    parser.add_argument(
        "--only", action="append", choices=list(APPLICATIONS), help="some applications (all)"
    )
    parser.add_argument(
        "--broker", choices=[PEER, OURS], default=PEER, help=f"which broker answers ({PEER})"
    )
    parser.add_argument("--out", type=Path, default=RECORDINGS, help=f"folder ({RECORDINGS})")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
