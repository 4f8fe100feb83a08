"""``siltstone pins``: lists the pins of a running broker, or ends one."""

import argparse
import json
import sys
from typing import Any

from siltstone.broker.commands.asking import Channel
from siltstone.broker.commands.explain_text import counted, duration, size
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import write_json, write_lines


def add_pins(parser: argparse.ArgumentParser) -> None:
    """Add the option for a pin to end."""
    parser.add_argument("--release", metavar="ID", help="end a pin whose reader is gone")


def run_pins(options: argparse.Namespace) -> int:
    """Print the pins there are, or end one; return the exit code: 0 fine, 1 a fault."""
    release = options.release
    channel = Channel(read_settings(options))
    if release is not None:
        channel.post("/v1/pins/release", body=json.dumps({"id": release}).encode())
        told = json.dumps({"released": release}) if options.json else f"released {release}"
        sys.stdout.write(f"{told}\n")
        return 0
    listed = json.loads(channel.get("/v1/pins").body)
    if options.json:
        write_json(listed)
    else:
        write_lines(map(_line, listed["pins"]) if listed["pins"] else ["there are no pins"])
    return 0


def _line(pin: dict[str, Any]) -> str:
    holder = f" for {pin['holder']}" if pin["holder"] else ""
    partitions = counted(pin["partitions"], "partition")
    segments = counted(pin["segments"], "segment")
    return (
        f"{pin['id']}{holder}: {', '.join(pin['topics'])}; {partitions}, {segments}, "
        f"{size(pin['bytes'])}, of which {size(pin['held_bytes'])} only pins keep; ends in "
        f"{duration(pin['expires_in_ms'])} unless renewed"
    )
