"""What a start leaves for later."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LATER = (
    "broker.coordinator_log",
    "broker.groups.classic_state",
    "broker.groups.coordinator",
    "broker.transactions.coordinator",
    "protocol.coordinator",
)
PROGRAM = """
import sys
import broker.run
import broker.handlers.metadata, broker.handlers.create_topics, broker.handlers.produce
print(*[name for name in sys.argv[1:] if name in sys.modules])
"""


def test_the_first_ack_needs_no_coordinator() -> None:
    """They are a sixth of what a start would import; nothing on the way may bring them back."""
    command = [sys.executable, "-c", PROGRAM, *LATER]

    imported = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    assert imported.stdout.split() == []
