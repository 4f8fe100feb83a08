"""``siltstone explain``, ``clean`` and ``history``: what they ask a running broker.

Explain makes do with the folders where none runs. Each returns the exit code: 0 fine, 1 a fault.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker import explain_text
from broker.control_client import ControlAnswer, ask
from broker.control_token import read_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.layers import Layers

POLL_SECONDS = 0.2
DRY_RUN_SECONDS = 3600.0
_UNFINISHED = {"requested", "in-progress", "aborting"}


class Refusal(Exception):  # noqa: N818  # the broker's sentence, not a fault of ours
    """The broker does not answer as it should; the text says why."""


class NobodyAnswers(Exception):  # noqa: N818  # likewise
    """No broker runs where the settings say."""


@dataclass(frozen=True, slots=True)
class Which:
    """The partitions that are meant: all of a topic, one of it, or every one there is."""

    topic: str = ""
    partition: int | None = None

    @property
    def query(self) -> str:
        """Return it as a query string."""
        from urllib.parse import urlencode  # noqa: PLC0415  # 4 ms

        facts = {"topic": self.topic} if self.topic else {}
        if self.partition is not None:
            facts["partition"] = str(self.partition)
        return urlencode(facts)


def meant_by(name: str | None) -> list[Which]:
    """Return what TOPIC[-PARTITION] may mean, the likeliest first: topics may end in a number."""
    if not name:
        return [Which()]
    topic, dash, number = name.rpartition("-")
    if dash and topic and number.isascii() and number.isdigit():
        return [Which(topic, int(number)), Which(name)]
    return [Which(name)]


class Channel:
    """Questions to the broker of some settings."""

    def __init__(self, layers: Layers) -> None:
        self._address = layers.server().http_address
        self._directory = Path(layers.server().log_dirs[0])

    def get(self, path: str, which: Which, more: str = "") -> ControlAnswer:
        """Ask for a page.

        Raises:
            Refusal: It answers with a fault.
            NobodyAnswers: No broker is there.
        """
        return self._ask("GET", path, which, more)

    def post(
        self, path: str, which: Which, more: str = "", timeout_seconds: float = 10.0
    ) -> ControlAnswer:
        """Ask for something to be done, with the token."""
        try:
            token = read_token(self._directory)
        except OSError as error:
            raise Refusal(f"the token of the broker cannot be read: {error}") from error
        return self._ask("POST", path, which, more, token, timeout_seconds)

    def _ask(
        self,
        method: str,
        path: str,
        which: Which,
        more: str,
        token: str = "",
        timeout_seconds: float = 10.0,
    ) -> ControlAnswer:
        query = "&".join(part for part in (which.query, more) if part)
        try:
            answer = ask(
                self._address,
                method,
                f"{path}?{query}" if query else path,
                token=token,
                timeout_seconds=timeout_seconds,
            )
        except ConnectionRefusedError as error:
            host, port = self._address
            raise NobodyAnswers(f"no broker answers on http.listener {host}:{port}") from error
        except (OSError, ValueError) as error:
            raise Refusal(f"{self._address[0]}:{self._address[1]}: {error}") from error
        if answer.status >= 400:
            raise Refusal(answer.sentence)
        return answer


def find(channel: Channel, name: str | None) -> tuple[Which, dict[str, Any]]:
    """Return which partitions a name means to the broker, and their explanations.

    Raises:
        Refusal: There are none.
        NobodyAnswers: No broker is there.
    """
    refusal = Refusal("")
    for which in meant_by(name):
        try:
            return which, json.loads(channel.get("/v1/explain", which).body)
        except Refusal as error:
            refusal = error
    raise refusal


def run_explain(layers: Layers, name: str | None, *, as_json: bool, is_dry_run: bool) -> int:
    """Print why partitions are or are not compacted."""
    channel = Channel(layers)
    try:
        which, answer = find(channel, name)
        if is_dry_run:
            body = channel.post("/v1/dry-run", which, timeout_seconds=DRY_RUN_SECONDS).body
            _add_predictions(answer, json.loads(body)["predictions"])
    except NobodyAnswers as error:
        return _explain_stopped(layers, name, str(error), as_json=as_json, is_dry_run=is_dry_run)
    except Refusal as error:
        return _fail(str(error))
    print_explanations(answer, as_json=as_json, in_detail=name is not None)
    return 0


def _explain_stopped(
    layers: Layers, name: str | None, why: str, *, as_json: bool, is_dry_run: bool
) -> int:
    """Explain from the folders, where no broker runs."""
    from broker.stopped import StoppedBroker  # noqa: PLC0415  # storage, only now
    from storage.log_directory import LogDirError  # noqa: PLC0415  # likewise

    try:
        stopped = StoppedBroker(layers)
        answer = stopped.explain(meant_by(name), is_dry_run=is_dry_run)
    except (LogDirError, LookupError) as error:
        return _fail(f"{why}, and its folders say: {error.args[0]}")
    sys.stderr.write(f"{why}; this is what its folders say\n")
    print_explanations(answer, as_json=as_json, in_detail=name is not None)
    return 0


def print_explanations(answer: dict[str, Any], *, as_json: bool, in_detail: bool) -> None:
    """Print the answer to explain, as it is or in words."""
    partitions = answer["partitions"]
    if as_json:
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
        return
    if not partitions:
        sys.stdout.write("there are no partitions\n")
    in_detail = in_detail or len(partitions) <= explain_text.MOST_IN_DETAIL
    lines = explain_text.explanation_lines(partitions, answer["now_ms"], in_detail=in_detail)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def run_clean(layers: Layers, name: str, *, is_forced: bool, waits: bool, seconds: float) -> int:
    """Ask for a pass and print what it came to."""
    channel = Channel(layers)
    try:
        which, _ = find(channel, name)
        asked = json.loads(channel.post("/v1/clean", which, "force=1" if is_forced else "").body)
        count = len(asked["requested"])
        if not waits:
            sys.stdout.write(f"asked for a pass over {count} partitions\n")
            return 0
        left = _wait(channel, which, seconds)
        events = list(_events(channel, which, asked["now_ms"]))
    except (Refusal, NobodyAnswers) as error:
        return _fail(str(error))
    done = {(event["topic"], event["partition"]): event for event in events}
    failed = False
    for facts in left["partitions"]:
        event = done.get((facts["topic"], facts["partition"]))
        failed = failed or facts["rule"] in _UNFINISHED
        if event is not None:
            failed = failed or event["outcome"] != "cleaned"
            sys.stdout.write(f"{explain_text.event_line(event)}\n")
        else:
            partition = explain_text.partition_name(facts)
            sys.stdout.write(f"{partition}: no pass, {facts['because']}\n")
    return 1 if failed else 0


def run_history(layers: Layers, name: str | None, *, as_json: bool) -> int:
    """Print the passes of the cleaner, the oldest first."""
    channel = Channel(layers)
    try:
        which = Which() if name is None else find(channel, name)[0]
        events = list(_events(channel, which, 0))
    except (Refusal, NobodyAnswers) as error:
        return _fail(str(error))
    for event in events:
        line = json.dumps(event) if as_json else explain_text.event_line(event)
        sys.stdout.write(f"{line}\n")
    return 0


def _wait(channel: Channel, which: Which, seconds: float) -> dict[str, Any]:
    """Return the explanations when no pass is waited for any more, or in time."""
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


def _fail(sentence: str) -> int:
    sys.stderr.write(f"siltstone: {sentence}\n")
    return 1
