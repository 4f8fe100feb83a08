"""``siltstone reload`` and ``siltstone diff``: have a running broker read its settings again.

The broker reads its own file, environment and ``--set``, not those of the command. Exit codes: 0
fine, 1 a fault.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from siltstone.broker.commands.asking import Channel, NoAnswer, Refusal
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import fail, write_json, write_wrapped


def run_reload(options: argparse.Namespace) -> int:
    """Ask the broker to reload its settings, and print the result."""
    return _run(options, "/v1/reload")


def run_diff(options: argparse.Namespace) -> int:
    """Print what a reload and a restart would change, and where a dynamic value has priority."""
    return _run(options, "/v1/diff")


def _run(options: argparse.Namespace, path: str) -> int:
    layers = read_settings(options)
    try:
        plan = json.loads(Channel(layers).post(path).body)
    except NoAnswer as error:
        return fail(str(error))
    except Refusal as error:
        return fail(f"nothing is changed: {error}")
    if options.json:
        write_json(plan)
    else:
        write_wrapped(_lines(plan, is_done=path == "/v1/reload"))
    return 0


def _lines(plan: dict[str, Any], *, is_done: bool) -> Iterator[str]:
    """Yield the plan for a person: under each outcome one line for each setting."""
    if plan["now"]:
        yield "changed now:" if is_done else "a reload changes now:"
        yield from map(_change, plan["now"])
    elif is_done:
        yield "nothing changed now"
    if plan["restart"]:
        yield "a restart changes:"
        yield from map(_change, plan["restart"])
    if plan["shadowed"]:
        yield "a dynamic value wins:"
        yield from map(_shadow, plan["shadowed"])
    if not is_done and not any(plan.values()):
        yield "the broker runs with what its file, environment and options say"


def _change(each: dict[str, Any]) -> str:
    return f"  {each['name']}: {_text(each['old'])} -> {_text(each['new'])}  ({each['source']})"


def _shadow(each: dict[str, Any]) -> str:
    winner = "" if each["wins"] == each["name"] else f"{each['wins']}="
    return (
        f"  {each['name']}: {winner}{_text(each['winner'])} ({each['winner_source']}) over "
        f"{_text(each['value'])} ({each['source']})"
    )


def _text(value: str | None) -> str:
    return "(none)" if value is None else value
