"""What a start leaves for later, and what the first requests after it may cost."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from protocol.records import kernels

ROOT = Path(__file__).parents[2]
LATER = (
    "broker.coordinator_log",
    "broker.groups.classic_state",
    "broker.groups.coordinator",
    "broker.transactions.coordinator",
    "protocol.coordinator",
    "broker.cleaner_pool",
    "broker.control",
    "broker.explaining",
    "broker.exposition",
    "broker.metrics",
    "broker.pages",
    "cleaner.cleaner",
    "cleaner.cleaner_thread",
    "cleaner.kernels",
    "cleaner.stats",
    "h11",
    "pickle",
    "prometheus_client",
)
LATER_WITH_KERNELS = ("crc32c", "email", "importlib.metadata")
FIRST_ACK = """
import json, sys
sys.modules["hypothesis"] = None  # as `siltstone serve` has it
import broker.run
import broker.handlers.metadata, broker.handlers.create_topics, broker.handlers.produce
print(json.dumps([name for name in sys.argv[1:] if name in sys.modules]))
"""
STEPS = """
import json, sys
from time import thread_time
sys.modules["hypothesis"] = None
import broker.run
from broker.coordinators import Coordinators
from broker.dispatch import Dispatcher
from broker.api import APIS
from broker.http import HttpServer
from broker.request_stats import RequestStats

coordinators = Coordinators(*[None] * 7)
coordinators._make = lambda: None
took = []
for steps in (
    Dispatcher(RequestStats((api.key, api.name) for api in APIS)).preload(),
    coordinators.preload(),
    HttpServer([]).preload(),
):
    before = set(sys.modules)
    began = thread_time()
    for _ in steps:
        seconds = thread_time() - began
        took.append((seconds, sorted(set(sys.modules) - before)[:3]))
        before = set(sys.modules)
        began = thread_time()
print(json.dumps(max(took)))
"""
FIRST_REQUESTS = """
import json, os, sys
from time import thread_time
sys.modules["hypothesis"] = None
import broker.run
from broker.api import APIS
from broker.dispatch import _RAW
from broker.coordinators import Coordinators
from protocol.messages import preload

LIMIT, TRIES = 0.05, 5
took = {}
for api in [api for api in APIS for _ in range(TRIES)]:  # the machine may be busy: the best counts
    if took.get(api.name, LIMIT) < LIMIT:
        continue
    reading, writing = os.pipe()
    if not os.fork():
        began = thread_time()
        api.load()
        if api.key not in _RAW:
            for _ in preload([(api.key, api.versions[0])]): pass
        os.write(writing, str(thread_time() - began).encode())
        os._exit(0)
    took[api.name] = min(took.get(api.name, 1e9), float(os.read(reading, 64)))
    os.wait()
    os.close(reading)
    os.close(writing)
print(json.dumps(took))
"""


def run(program: str, *arguments: str) -> Any:
    """Return what the program prints in an interpreter of its own."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_the_first_ack_needs_nothing_that_can_wait() -> None:
    """Together a third of what a start would import; nothing on the way may bring them back."""
    later = LATER + LATER_WITH_KERNELS if kernels.COMPILED else LATER

    assert run(FIRST_ACK, *later) == []


def test_no_step_of_the_preload_holds_the_loop_up() -> None:
    """Clients are served meanwhile: each step is a few milliseconds of processor time."""
    seconds, imported = run(STEPS)

    assert seconds < 0.05, imported


def test_no_first_request_holds_the_loop_up() -> None:
    """Who comes before the preload was done waits for one API's modules, by processor time."""
    slow = {name: seconds for name, seconds in run(FIRST_REQUESTS).items() if seconds >= 0.05}

    assert slow == {}
