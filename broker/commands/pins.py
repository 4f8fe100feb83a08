"""``siltstone pins``: the pins of segment files of a running broker, and ending one by hand."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from siltstone.broker.commands.asking import Channel, NobodyAnswers, Refusal
from siltstone.broker.commands.explain_text import counted, duration, size
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import fail, write_json, write_lines

if TYPE_CHECKING:
    import argparse

    from siltstone.broker.commands.http_client import ControlAnswer


def add_pins(parser: argparse.ArgumentParser) -> None:
    """Add a pin to end."""
    parser.add_argument("--release", metavar="ID", help="end a pin whose reader is gone")


def run_pins(options: argparse.Namespace) -> int:
    """Print the pins there are, or end one; return the exit code: 0 fine, 1 a fault."""
    release = options.release
    channel = Channel(read_settings(options))
    try:
        if release is None:
            answer = channel.get("/v1/pins")
        else:
            body = json.dumps({"id": release}).encode()
            answer = channel.post("/v1/pins/release", body=body)
    except NobodyAnswers as error:
        return fail(error.advice)
    except Refusal as error:
        return fail(str(error))
    if release is not None:
        told = json.dumps({"released": release}) if options.json else f"released {release}"
        sys.stdout.write(f"{told}\n")
    else:
        _print(answer, as_json=options.json)
    return 0


def _print(answer: ControlAnswer, *, as_json: bool) -> None:
    listed = json.loads(answer.body)
    if as_json:
        write_json(listed)
        return
    write_lines(map(_line, listed["pins"]))
    if not listed["pins"]:
        sys.stdout.write("there are no pins\n")


def _line(pin: dict[str, Any]) -> str:
    holder = f" for {pin['holder']}" if pin["holder"] else ""
    partitions = counted(pin["partitions"], "partition")
    segments = counted(pin["segments"], "segment")
    return (
        f"{pin['id']}{holder}: {', '.join(pin['topics'])}; {partitions}, {segments}, "
        f"{size(pin['bytes'])}, of which {size(pin['held_bytes'])} only pins keep; ends in "
        f"{duration(pin['expires_in_ms'])} unless renewed"
    )
