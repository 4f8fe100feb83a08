"""The commands ``siltstone explain``, ``clean`` and ``history``, which ask a running broker.

If no broker runs, explain and history read its folders instead. Each returns the exit code: 0 fine,
1 a fault.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from siltstone.broker.commands import explain_text
from siltstone.broker.commands.asking import Channel, NobodyAnswers, Refusal, Which, meant_by
from siltstone.broker.commands.explain_text import counted
from siltstone.broker.commands.options import read_settings, seconds
from siltstone.broker.commands.terminal import (
    CommandFailed,
    complain,
    find_width,
    write_json,
    write_lines,
    write_wrapped,
)
from siltstone.cleaner.explaining.advice import choose
from siltstone.config.layers import Layers

if TYPE_CHECKING:
    from siltstone.broker.commands.stopped import StoppedBroker

T = TypeVar("T")

POLL_SECONDS = 0.2
DRY_RUN_SECONDS = 3600.0
_UNFINISHED = {"requested", "in-progress", "aborting"}
_WHICH = "a topic or one of its partitions (default: all)"
_PREVENTED = {"policy-not-compact", "cleaner-off", "directory-offline", "paused", "failed"}
"""Rules that keep a partition from a pass that it may need."""


def find(channel: Channel, name: str | None) -> tuple[Which, dict[str, Any]]:
    """Return which partitions a name means to the broker, and their explanations.

    Raises:
        Refusal: No partition is meant.
        NobodyAnswers: No broker runs.
    """
    refusal = Refusal("")
    for which in meant_by(name):
        try:
            return which, json.loads(channel.get("/v1/explain", which).body)
        except Refusal as error:
            refusal = error
    raise refusal


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the options: which partitions, and whether their logs are read."""
    parser.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=_WHICH)
    parser.add_argument(
        "--dry-run", action="store_true", help="read the logs as a pass would and predict it"
    )
    parser.add_argument(
        "--waiting", action="store_true", help="only those that have something to clean, and wait"
    )
    parser.add_argument(
        "--failed", action="store_true", help="only those that could not be cleaned or read"
    )


def run_explain(options: argparse.Namespace) -> int:
    """Print why partitions are or are not compacted."""
    layers = read_settings(options)
    name, is_dry_run = options.name, options.dry_run
    channel = Channel(layers)
    try:
        which, answer = find(channel, name)
        if is_dry_run:
            body = channel.post("/v1/dry-run", which, timeout_seconds=DRY_RUN_SECONDS).body
            _add_predictions(answer, json.loads(body)["predictions"])
    except NobodyAnswers as error:
        answer = _ask_folders(
            layers,
            str(error),
            lambda stopped: stopped.explain(meant_by(name), is_dry_run=is_dry_run),
        )
    print_explanations(answer, options)
    return 0


def _ask_folders(layers: Layers, why: str, ask: Callable[[StoppedBroker], T]) -> T:
    """Return what the folders say, since no broker runs."""
    from siltstone.broker.commands.stopped import StoppedBroker  # noqa: PLC0415  # storage, only now
    from siltstone.storage.directory.log_directory import LogDirError  # noqa: PLC0415  # likewise

    try:
        answer = ask(StoppedBroker(layers))
    except (LogDirError, LookupError, OSError) as error:
        raise CommandFailed(f"{why}, and its folders say: {error}") from error
    complain(f"{why}; this is what its folders say")
    return answer


def print_explanations(answer: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the broker's answer to explain, as JSON or in words."""
    every = answer["partitions"]
    partitions = choose(every, waiting=options.waiting, failed=options.failed)
    if options.json:
        write_json({**answer, "partitions": partitions})
        return
    if not every:
        sys.stdout.write("there are no partitions\n")
    elif not partitions:
        filters = (("waits", options.waiting), ("failed", options.failed))
        words = " or ".join(word for word, is_set in filters if is_set)
        sys.stdout.write(f"none of {counted(len(every), 'partition')} {words}\n")
    in_detail = options.name is not None or len(partitions) <= explain_text.MAX_IN_DETAIL
    lines = explain_text.explanation_lines(
        partitions, answer["now_ms"], in_detail=in_detail, width=find_width(), of_many=len(every)
    )
    write_lines(lines)


def add_clean(parser: argparse.ArgumentParser) -> None:
    """Add the options: which partitions, and how much of them."""
    parser.add_argument("name", metavar="TOPIC[-PARTITION]")
    parser.add_argument("--wait", action="store_true", help="until it is done, and say what it did")
    parser.add_argument("--timeout", type=seconds, default=3600.0, metavar="SECONDS")
    parser.add_argument(
        "--force", action="store_true", help="records younger than min.compaction.lag.ms, too"
    )
    parser.add_argument(
        "--roll", action="store_true", help="close the active segments first, so that they are, too"
    )


def run_clean(options: argparse.Namespace) -> int:
    """Ask for a pass and print its result."""
    name, as_json = options.name, options.json
    channel = Channel(read_settings(options))
    which, _ = find(channel, name)
    query = "&".join(f"{each}=1" for each in ("force", "roll") if getattr(options, each))
    asked = json.loads(channel.post("/v1/clean", which, query).body)
    if not options.wait:
        if as_json:
            write_json(asked)
            return 0
        clean = asked["nothing_to_clean"]
        idle_words = f"; {counted(clean, 'partition')} had nothing to clean" if clean else ""
        many = counted(len(asked["requested"]), "partition")
        sys.stdout.write(f"asked for a pass over {many}{idle_words}\n")
        return 0
    left = _wait(channel, which, options.timeout)
    events = list(_events(channel, which, asked["now_ms"]))
    done = {(event["topic"], event["partition"]): event for event in events}
    idle = [each for each in left["partitions"] if (each["topic"], each["partition"]) not in done]
    if as_json:
        write_json({**asked, "passes": list(done.values()), "no_pass": idle})
    else:
        _print_passes(left["partitions"], done)
    failed = not done or any(event["outcome"] != "cleaned" for event in done.values())
    is_left = any(each["rule"] in _UNFINISHED | _PREVENTED for each in left["partitions"])
    return 1 if failed or is_left else 0


def _print_passes(
    partitions: list[dict[str, Any]], done: dict[tuple[str, int], dict[str, Any]]
) -> None:
    for facts in partitions:
        event = done.get((facts["topic"], facts["partition"]))
        if event is not None:
            write_wrapped([explain_text.event_line(event)])
        else:
            partition = explain_text.partition_name(facts)
            write_wrapped([f"{partition}: no pass, {facts['because']}"])


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add the option for the partitions."""
    parser.add_argument("name", nargs="?", metavar="TOPIC[-PARTITION]", help=_WHICH)


def run_history(options: argparse.Namespace) -> int:
    """Print the passes of the cleaner, the oldest first."""
    layers = read_settings(options)
    name, as_json = options.name, options.json
    channel = Channel(layers)
    try:
        which = Which() if name is None else find(channel, name)[0]
        events = list(_events(channel, which, 0))
    except NobodyAnswers as error:
        events = _ask_folders(layers, str(error), lambda stopped: stopped.history(meant_by(name)))
    if as_json:
        sys.stdout.writelines(json.dumps(event) + "\n" for event in events)
    else:
        write_wrapped(map(explain_text.event_line, events) if events else ["there was no pass yet"])
    return 0


def _wait(channel: Channel, which: Which, seconds: float) -> dict[str, Any]:
    """Return the explanations when no pass is pending any more, or when the time is over."""
    left = seconds
    while True:
        answer: dict[str, Any] = json.loads(channel.get("/v1/explain", which).body)
        if left <= 0 or all(facts["rule"] not in _UNFINISHED for facts in answer["partitions"]):
            return answer
        time.sleep(POLL_SECONDS)
        left -= POLL_SECONDS


def _events(channel: Channel, which: Which, since_ms: int) -> Iterator[dict[str, Any]]:
    body = channel.get("/v1/cleaner-history", which, f"since_ms={since_ms}").body
    for line in body.splitlines():
        yield json.loads(line)


def _add_predictions(answer: dict[str, Any], predictions: list[dict[str, Any]]) -> None:
    found = {(each["topic"], each["partition"]): each for each in predictions}
    for facts in answer["partitions"]:
        prediction = found.get((facts["topic"], facts["partition"]))
        if prediction is not None:
            facts["prediction"] = prediction
