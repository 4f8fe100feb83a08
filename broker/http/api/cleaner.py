"""The page about the cleaner: past passes, passes that run, and when each partition is next."""

from typing import Any, Final

from siltstone.broker.http.api.questions import SHARE_SECONDS, Question
from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.services import Services
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.cleaner.explaining.advice import DONE, advise

MAX_EVENTS: Final = 1000
MAX_EXPLAINED: Final = 1000
_LEFT_OUT = frozenset({"receipt", "topic_id"})


class CleanerTimeline:
    """``/api/cleaner`` (loop only)."""

    def __init__(self, services: Services, cleaning: Cleaning, explainer: Explainer) -> None:
        self._services = services
        self._cleaning = cleaning
        self._explainer = explainer

    async def show(self, request: HttpRequest) -> dict[str, Any]:
        """Return passes, the newest last, and the partitions to clean, the next first."""
        question = Question(request, ("limit", "since_ms"))
        limit = question.number("limit", 200, 1, MAX_EVENTS)
        since_ms = question.number("since_ms", 0, 0, 1 << 60)
        pool = self._cleaning.pool.get()
        events = [
            {name: value for name, value in event.items() if name not in _LEFT_OUT}
            for event in pool.services.history.recent()
            if event.get("ended_ms", 0) >= since_ms
        ]
        topics = self._services.topics.topics.values()
        compacted = [each for each in topics if "compact" in each.config.cleanup_policy]
        wanted = [(topic, index) for topic in compacted for index in range(topic.partitions)]
        share = LoopShare(SHARE_SECONDS)
        explained = []
        for facts in self._explainer.explain(wanted[:MAX_EXPLAINED]):
            facts["advice"] = advise(facts)
            explained.append(facts)
            await share.rest()
        idle = sum(each["rule"] in DONE for each in explained)
        owed = sorted((each for each in explained if each["rule"] not in DONE), key=_when)
        off = self._explainer.find_what_is_off()
        return {
            "now_ms": self._services.clock.now_ms(),
            "off": None if off is None else str(off),
            "working_on": [
                {
                    "thread": thread.name,
                    "topic": progress.topic_partition.topic,
                    "partition": progress.topic_partition.partition,
                    "phase": progress.phase,
                    "bytes_done": progress.bytes_done,
                    "bytes_total": progress.bytes_total,
                }
                for thread in pool.threads
                if (progress := thread.progress) is not None
            ],
            "passes": events[-limit:],
            "partitions": owed,
            "idle": idle,
            "left_out": max(0, len(wanted) - MAX_EXPLAINED),
        }


def _when(facts: dict[str, Any]) -> tuple[bool, int, float]:
    """Sort key: when the cleaner may clean a partition; partitions that need a change come last."""
    next_ms = facts["next_eligible_ms"]
    return next_ms is None, next_ms or 0, -facts.get("dirty_ratio", 0.0)
