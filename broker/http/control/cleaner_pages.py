"""The cleaner's pages of the control channel: explain, dry-run, clean, history.

All pages accept ``?topic=`` and ``?partition=``; without a topic they mean every partition. A
request for a pass, and the dry run, which costs as much as a pass, require the token.
"""

import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.values import (
    JSON,
    HttpRequest,
    HttpResponse,
    Page,
    Route,
    json_answer,
    text,
)
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.topic import Topic
from siltstone.cleaner import selection
from siltstone.cleaner.errors import CleaningAborted, CorruptSegment
from siltstone.cleaner.explaining.explanation import Rule
from siltstone.cleaner.history.events import figures_of
from siltstone.cleaner.one_pass.stats import Prediction
from siltstone.cleaner.selection import CleanableLog
from siltstone.protocol.errors import KafkaError
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log

SLICE_SECONDS = 0.001
MAX_EVENTS = 1000


class Question(NamedTuple):
    """The partitions and options that a request names."""

    topic: str | None
    partition: int | None
    is_forced: bool
    since_ms: int
    rolls: bool = False


@dataclass(frozen=True, slots=True)
class CleanerPages:
    """The pages under ``/v1/`` that are about the cleaner (loop only)."""

    cleaning: Cleaning
    explainer: Explainer
    io: IoThreads
    clock: Clock

    def routes(self, guarded: Callable[[Page], Page]) -> tuple[Route, ...]:
        """Return the pages; ``guarded`` makes a page require the token."""
        return (
            Route("GET", "/v1/explain", _asked(self._explain)),
            Route("POST", "/v1/dry-run", guarded(_asked(self._dry_run))),
            Route("POST", "/v1/clean", guarded(_asked(self._clean))),
            Route("GET", "/v1/cleaner-history", _asked(self._history)),
        )

    async def _explain(self, question: Question) -> HttpResponse:
        found = self.explainer.select(question.topic, question.partition)
        if found is None:
            return _unknown(question)
        return HttpResponse(body=self._pieces(found), content_type=JSON)

    async def _pieces(self, partitions: list[tuple[Topic, int]]) -> AsyncIterator[bytes]:
        """Yield the answer in pieces that take about a millisecond each."""
        pieces = [f'{{"now_ms": {self.clock.now_ms()}, "partitions": [']
        share = LoopShare(SLICE_SECONDS)
        separator = "\n"
        for answer in self.explainer.explain(partitions):
            pieces += (separator, json.dumps(answer))
            separator = ",\n"
            if share.is_over:
                yield "".join(pieces).encode()
                pieces.clear()
                await share.turn()
        pieces.append("\n]}\n")
        yield "".join(pieces).encode()

    async def _dry_run(self, question: Question) -> HttpResponse:
        found = self.explainer.select(question.topic, question.partition)
        if found is None:
            return _unknown(question)
        is_forced = question.is_forced
        answers = []
        for topic, index in found:
            log = topic.logs[index]
            if log is not None and log.config.is_compacted:
                answers.append(await self._predict(log, is_forced=is_forced))
        return json_answer({"now_ms": self.clock.now_ms(), "predictions": answers})

    async def _predict(self, log: Log, *, is_forced: bool) -> dict[str, Any]:
        topic, partition = log.topic_partition
        head: dict[str, Any] = {"topic": topic, "partition": partition}
        began = self.clock.monotonic()
        try:
            cleanable = self._find_cleanable(log, is_forced=is_forced)
            if not cleanable.is_worth_a_pass:
                return {**head, "fault": "there is nothing to clean now"}
            prediction = await self.io.run(self.cleaning.pool.get().dry_run, log, cleanable)
        except (CleaningAborted, CorruptSegment, OSError, struct.error) as error:
            return {**head, "fault": f"{type(error).__name__}: {error}"}
        if prediction is None:
            return {**head, "fault": "somebody works on the partition now; ask again"}
        seconds = self.clock.monotonic() - began
        return head | prediction_answer(prediction, seconds)

    def _find_cleanable(self, log: Log, *, is_forced: bool) -> CleanableLog:
        snapshot = self.cleaning.manager.snapshot(log)
        if is_forced:
            snapshot = selection.without_min_lag(snapshot)
        return selection.find_cleanable(snapshot, self.clock.now_ms())

    def _has_work(self, log: Log, *, is_forced: bool) -> bool:
        try:
            return self._find_cleanable(log, is_forced=is_forced).is_worth_a_pass
        except (CorruptSegment, OSError, struct.error):
            return True  # the pass will report what is wrong

    async def _clean(self, question: Question) -> HttpResponse:
        found = self.explainer.select(question.topic, question.partition)
        if question.topic is None or found is None:
            return _unknown(question)
        logs = [log for topic, index in found if (log := topic.logs[index]) is not None]
        compacted = [log for log in logs if log.config.is_compacted]
        if not compacted:
            return text(409, f"topic {question.topic} does not have compact in its cleanup.policy")
        off = self.explainer.find_what_is_off()
        if off is not None:
            return text(409, f"nothing is cleaned while {off}; change it and restart the broker")
        is_forced = question.is_forced
        if question.rolls:
            try:
                await self._roll(compacted)
            except KafkaError as error:
                return text(409, f"the active segments cannot be closed: {error.message}")
        dirty = [log for log in compacted if self._has_work(log, is_forced=is_forced)]
        if not dirty:
            return text(409, self._why_nothing(question, found))
        answer = {
            "now_ms": self.clock.now_ms(),
            "requested": [log.topic_partition._asdict() for log in dirty],
            "nothing_to_clean": len(compacted) - len(dirty),
        }
        for log in dirty:
            await self.io.run(self.cleaning.request, log.topic_partition, is_forced=is_forced)
        return json_answer(answer, 202)

    async def _roll(self, logs: list[Log]) -> None:
        """Roll the active segment of each log, unless it is empty."""
        share = LoopShare(SLICE_SECONDS)
        for log in logs:
            log.roll()
            await share.rest()

    def _why_nothing(self, question: Question, found: list[tuple[Topic, int]]) -> str:
        sentence = f"there is nothing to clean in {_name(question)} now"
        if len(found) == 1:
            (facts,) = self.explainer.explain(found)
            closes = "; siltstone clean --roll closes it first"
            more = closes if facts["rule"] == Rule.ACTIVE_ONLY else ""
            return f"{sentence}: {facts['because']}{more}"
        return f"{sentence}; ask siltstone explain {question.topic} why"

    async def _history(self, question: Question) -> HttpResponse:
        events = [
            event
            for event in self.cleaning.pool.get().services.history.recent()
            if question.topic in {None, event.get("topic")}
            and question.partition in {None, event.get("partition")}
            and event.get("ended_ms", 0) >= question.since_ms
        ]
        return HttpResponse(body=self._lines(events[-MAX_EVENTS:]), content_type=JSON)

    async def _lines(self, events: list[dict[str, Any]]) -> AsyncIterator[bytes]:
        """Yield events as lines of JSON, a few at a time; receipts may be long."""
        share = LoopShare(SLICE_SECONDS)
        for event in events:
            yield json.dumps(event).encode() + b"\n"
            await share.rest()


def parse(query: str) -> Question:
    """Parse a query string.

    Raises:
        ValueError: The partition is no number.
    """
    from urllib.parse import parse_qsl  # noqa: PLC0415  # 4 ms that only these pages need

    facts = dict(parse_qsl(query))
    partition = facts.get("partition")
    return Question(
        topic=facts.get("topic"),
        partition=None if partition is None else int(partition),
        is_forced=facts.get("force") == "1",
        since_ms=int(facts.get("since_ms", "0")),
        rolls=facts.get("roll") == "1",
    )


def _asked(answer: Callable[[Question], Awaitable[HttpResponse]]) -> Page:
    """Return a page that parses its query and calls ``answer``."""

    async def page(request: HttpRequest) -> HttpResponse:
        try:
            question = parse(request.query)
        except ValueError as error:
            return text(400, f"{request.path}?{request.query}: {error}")
        return await answer(question)

    return page


def prediction_answer(prediction: Prediction, seconds: float) -> dict[str, Any]:
    """Return a prediction as JSON values; ``seconds`` is the duration of the dry run."""
    result = prediction.result
    return {
        "first_dirty_offset": result.first_dirty_offset,
        "first_uncleanable_offset": result.first_uncleanable_offset,
        "end_offset": result.end_offset,
        "passes": prediction.passes,
        "bytes_after": prediction.bytes_after,
        **figures_of(result),
        "seconds": round(seconds, 6),
        "segments_in": sum(len(group.inputs) for group in result.groups),
        "segments_out": sum(len(group.outputs) for group in result.groups),
    }


def _unknown(question: Question) -> HttpResponse:
    if question.topic is None:
        return text(400, "name a topic: ?topic=NAME, and &partition=NUMBER if only one is meant")
    return text(404, f"there is no topic or partition {_name(question)} here")


def _name(question: Question) -> str:
    return f"{question.topic}{'' if question.partition is None else f'-{question.partition}'}"
