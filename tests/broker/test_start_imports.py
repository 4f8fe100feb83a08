"""Imports that a start leaves for later, and the cost of the first requests after it.

Cost is counted in calls, which a busy or slow machine does not change: 500 to 900 of them took a
millisecond of processor time where this was written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.programs import run_to_end

ROOT = Path(__file__).parents[2]
LATER = (
    "siltstone.broker.coordinators",
    "siltstone.broker.coordination.journal",
    "siltstone.broker.groups.classic.group",
    "siltstone.broker.groups.coordinator",
    "siltstone.broker.transactions.coordinator",
    "siltstone.protocol.coordinator",
    "siltstone.broker.topics.cleaner_pool",
    "siltstone.broker.http.control.channel",
    "siltstone.broker.http.control.explaining",
    "siltstone.broker.http.metrics.exposition",
    "siltstone.broker.http.metrics.table",
    "siltstone.broker.http.pages",
    "siltstone.cleaner.one_pass.cleaner",
    "siltstone.cleaner.threads.cleaner_thread",
    "siltstone.protocol.core.compaction",
    "siltstone.cleaner.one_pass.stats",
    "h11",
    "hmac",
    "pickle",
    "prometheus_client",
    "crcmod",
    "datetime",
    "email",
    "importlib.metadata",
    "random",
    "secrets",
    "shutil",
)
FIRST_ACK = """
import json, sys
sys.modules["hypothesis"] = None  # as `siltstone serve` has it
from siltstone.broker.commands.parser import parser_for
parser_for(["serve"]).parse_args(["serve"])
import siltstone.broker.run
from siltstone.broker.handlers import create_topics, metadata, produce
print(json.dumps([name for name in sys.argv[1:] if name in sys.modules]))
"""
MAX_CALLS = 30_000
COUNTER = """
import json, os, sys
sys.modules["hypothesis"] = None
import siltstone.broker.run

calls = 0

def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
"""
STEPS = """
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.api import APIS
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.server import COORDINATOR_MODULES, PAGE_MODULES

made = []
for steps in (
    Dispatcher(RequestStats((api.key, api.name) for api in APIS)).preload(),
    OnFirstUse(dict, COORDINATOR_MODULES).preload(),
    OnFirstUse(dict, PAGE_MODULES).preload(),
):
    calls, before = 0, set(sys.modules)
    sys.setprofile(count)
    for _ in steps:
        sys.setprofile(None)
        made.append((calls, sorted(set(sys.modules) - before)[:3]))
        calls, before = 0, set(sys.modules)
        sys.setprofile(count)
    sys.setprofile(None)
print(json.dumps(max(made)))
"""
FIRST_REQUESTS = """
from siltstone.broker.api import APIS

made = {}
for api in APIS:
    reading, writing = os.pipe()
    if not os.fork():
        sys.setprofile(count)
        api.load()
        for message in api.load_messages(): message.table(api.versions[0])
        sys.setprofile(None)
        os.write(writing, str(calls).encode())
        os._exit(0)
    made[api.name] = int(os.read(reading, 64))
    os.wait()
    os.close(reading)
    os.close(writing)
print(json.dumps(made))
"""


def run(program: str, *arguments: str) -> Any:
    """Return what the program prints in an interpreter of its own."""
    command = [sys.executable, "-c", program, *arguments]
    done = run_to_end(command, cwd=ROOT, check=True)
    return json.loads(done.stdout)


def test_the_first_ack_needs_nothing_that_can_wait() -> None:
    """Together a third of what a start would import; nothing on the way may bring them back."""
    assert run(FIRST_ACK, *LATER) == []


def test_no_step_of_the_preload_holds_the_loop_up() -> None:
    """Clients are served meanwhile: each step is a few milliseconds of processor time."""
    calls, imported = run(COUNTER + STEPS)

    assert 0 < calls < MAX_CALLS, imported


def test_no_first_request_holds_the_loop_up() -> None:
    """A client that comes before the preload was done waits for one API's modules."""
    made = run(COUNTER + FIRST_REQUESTS)

    assert {name: calls for name, calls in made.items() if calls >= MAX_CALLS} == {}
    assert max(made.values()) > 0
