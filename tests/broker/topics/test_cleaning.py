"""The cleaner in the broker: others that touch a log tell it so, and anyone may ask it why."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.http.control.cleaner_pages import CleanerPages
from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.metrics.cleaner_metrics import CLEANER_METRICS
from siltstone.broker.http.metrics.scans import PAUSE, find_cleanable
from siltstone.broker.http.server import Routes
from siltstone.broker.http.values import HttpRequest, HttpResponse
from siltstone.broker.topics.topic import Topic
from siltstone.cleaner.states import State
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.batches import make_producer_batch
from tests.support.cleaner import read_all
from tests.support.clock import set_seconds
from tests.support.faults import install
from tests.support.logs import validated
from tests.support.metrics import make_sources, rows_of
from tests.support.services import ServicesOnDisk
from tests.support.waiting import equals, give_turns_until

ORDERS = TopicPartition("orders", 0)
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.4"}


class Home(ServicesOnDisk):
    """A broker with a cleaner whose threads are not started."""

    async def open(self) -> "Home":
        """Start everything in the order of the server."""
        await super().open()
        services = self.services
        self.cleaning = self.cleaner
        self.explainer = Explainer(self.cleaning, services.topics, services.settings, self.clock)
        self.pages = CleanerPages(self.cleaning, self.explainer, self.io, self.clock)
        return self

    async def close(self) -> None:
        """Stop the cleaner before the logs."""
        assert await self.cleaning.stop()
        await super().close()

    async def create(self, name: str = "orders", partitions: int = 1) -> Topic:
        """Create a compacted topic."""
        return await self.services.topics.create(name, partitions, COMPACT)

    def log(self, topic_partition: TopicPartition = ORDERS) -> Log:
        """Return the log of a partition."""
        return self.services.logs.logs[topic_partition]

    def fill(self, log: Log, segments: int = 2) -> None:
        """Close that many segments with the same ten keys."""
        for _ in range(segments):
            append_unchecked(log, [(b"k%d" % number, b"value") for number in range(10)])
            log.roll()

    async def ask(self, method: str, path: str) -> HttpResponse:
        """Ask one of the pages, none of which wants a token here."""
        path, _, query = path.partition("?")
        routes = Routes(self.pages.routes(lambda page: page))
        return await routes.answer(HttpRequest(method=method, path=path, query=query))

    async def json(self, method: str, path: str) -> Any:
        """Return the answer of a page, which is JSON."""
        return json.loads(await body(await self.ask(method, path)))


async def passes(home: Home, count: int) -> None:
    """Wait until so many passes have ended."""
    figures = home.cleaning.pool.get().services.figures
    await give_turns_until(lambda: figures.passes, f"pass {count}", equals(count))


async def body(response: HttpResponse) -> bytes:
    """Return the whole body of an answer."""
    if isinstance(response.body, bytes):
        return response.body
    return b"".join([piece async for piece in response.body])


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """A broker without topics."""
    home = Home(tmp_path)
    await home.open()
    yield home
    await home.close()


async def test_started_cleaner_cleans(home: Home) -> None:
    """The threads find the work, and the checkpoint is in the log directory."""
    await home.create()
    home.fill(home.log(), 3)

    await home.cleaning.start()

    await passes(home, 1)
    assert len(read_all(home.log())) == 10
    assert (home.paths[0] / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 30\n"


async def test_deleting_a_topic_ends_its_pass(home: Home) -> None:
    """The worker is told; the partition leaves the checkpoint."""
    topic = await home.create()
    home.fill(home.log())
    grabbed = await home.io.run(home.cleaning.manager.grab_filthiest)
    assert grabbed is not None
    deletion = asyncio.create_task(home.services.topics.delete(topic))
    states = home.cleaning.manager.states
    await give_turns_until(lambda: states.get(ORDERS), "state ABORTED", equals(State.ABORTED))

    home.cleaning.manager.release(grabbed.log)

    await deletion
    assert ORDERS not in home.services.logs.logs
    assert states.get(ORDERS) is State.NONE
    await home.create()
    home.fill(home.log())
    assert home.cleaning.manager.grab_filthiest() is not None
    home.cleaning.manager.release(home.log())


async def test_topic_that_is_no_longer_compacted_ends_its_pass(home: Home) -> None:
    """Retention keeps off until the cleaner has let go."""
    topic = await home.create()
    home.fill(home.log())
    grabbed = home.cleaning.manager.grab_filthiest()
    assert grabbed is not None

    await home.services.topics.alter(topic, {"cleanup.policy": "delete"})

    states = home.cleaning.manager.states
    await give_turns_until(lambda: states.get(ORDERS), "state ABORTED", equals(State.ABORTED))
    assert home.cleaning.is_busy(grabbed.log)
    home.cleaning.manager.release(grabbed.log)
    await give_turns_until(lambda: states.get(ORDERS), "state NONE", equals(State.NONE))
    assert not home.cleaning.is_busy(grabbed.log)


async def test_changed_settings_give_a_failed_partition_another_try(home: Home) -> None:
    """At once, and without a restart (KAFKA-19895)."""
    topic = await home.create()
    home.fill(home.log())
    manager = home.cleaning.manager
    grabbed = manager.grab_filthiest()
    assert grabbed is not None
    manager.fail(grabbed, ValueError("no batch"))
    assert manager.grab_filthiest() is None

    await home.services.topics.alter(topic, {**COMPACT, "delete.retention.ms": "5"})

    await give_turns_until(manager.grab_filthiest, "a log to clean")
    manager.release(grabbed.log)


async def test_dynamic_settings_reach_the_threads(home: Home) -> None:
    """Threads, map, buffers, rate and backoff, while the broker runs."""
    await home.cleaning.start()

    await home.services.settings.alter(
        broker={
            "log.cleaner.threads": "2",
            "log.cleaner.backoff.ms": "70",
            "log.cleaner.io.max.bytes.per.second": "1000000",
            "log.cleaner.dedupe.buffer.size": "33554432",
            "log.cleaner.io.buffer.size": "1048576",
        }
    )

    settings = home.cleaning.pool.get().settings
    assert [each.name for each in home.cleaning.pool.get().threads] == ["cleaner-0", "cleaner-1"]
    assert settings.backoff_seconds == 0.07
    assert settings.bytes_per_second == 1e6
    assert settings.dedupe_buffer_bytes == 16 << 20
    assert settings.io_buffer_bytes == 1 << 18


async def test_explain_tells_of_every_partition(home: Home) -> None:
    """With what decides, in the order of topics and partitions."""
    await home.create("orders", 2)
    await home.services.topics.create("plain", 1, {})
    home.fill(home.log())

    answer = await home.json("GET", "/v1/explain")

    assert answer["now_ms"] == home.clock.now_ms()
    assert [(each["topic"], each["partition"], each["rule"]) for each in answer["partitions"]] == [
        ("orders", 0, "ratio-above"),
        ("orders", 1, "empty"),
        ("plain", 0, "policy-not-compact"),
    ]
    assert answer["partitions"][0]["setting"]["where"] == "topic"


async def test_explain_of_one_partition(home: Home) -> None:
    """Only that is answered; unknown ones are named."""
    await home.create("orders", 2)

    answer = await home.json("GET", "/v1/explain?topic=orders&partition=1")

    assert [each["partition"] for each in answer["partitions"]] == [1]
    missing = await home.ask("GET", "/v1/explain?topic=orders&partition=2")
    assert (missing.status, await body(missing)) == (
        404,
        b"there is no topic or partition orders-2 here\n",
    )
    wrong = await home.ask("GET", "/v1/explain?topic=orders&partition=x")
    assert wrong.status == 400


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_partition_that_cannot_be_read_is_told_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    """By explain, and as nothing to clean by the metrics: a bad disk, or a file that was cut."""
    home = await Home(tmp_path).open()
    topic = await home.services.topics.create(
        "orders", 2, {**COMPACT, "max.compaction.lag.ms": "1"}
    )
    for log in topic.logs:
        assert log is not None
        home.fill(log)
    await home.close()
    home = await Home(tmp_path).open()
    try:
        if is_cut:
            os.truncate(home.log().segments[0].log_path, 10)
        else:
            install(monkeypatch).fail("pread", path="orders-0")
        bad, good = (await home.json("GET", "/v1/explain"))["partitions"]
        (dry_run, _) = (await home.json("POST", "/v1/dry-run"))["predictions"]

        assert (bad["partition"], bad["rule"], bad["eligible"]) == (0, "unreadable", False)
        assert bad["because"].startswith("its folder cannot be read: ")
        assert (good["partition"], good["eligible"]) == (1, True)
        assert dry_run["fault"]
        assert find_cleanable(home.cleaning, home.log()) is None
    finally:
        await home.close()


async def test_explain_leaves_out_what_goes_meanwhile(home: Home) -> None:
    """Of a topic that is deleted while the answer is sent nothing more is told."""
    gone = await home.create("gone", 2)
    await home.create("orders")
    explained = home.explainer.explain(home.explainer.select(None, None) or ())
    first = next(explained)
    await home.services.topics.delete(gone)

    assert (first["topic"], first["partition"]) == ("gone", 0)
    assert [each["topic"] for each in explained] == ["orders"]


async def test_explain_names_the_open_transaction(home: Home) -> None:
    """Producer and first offset, from the producer state of the log."""
    await home.create()
    batch = make_producer_batch(0, 5)
    batch[22] |= 0x10  # transactional
    home.log().append(validated(batch))
    home.log().roll()
    home.fill(home.log())

    (facts,) = (await home.json("GET", "/v1/explain"))["partitions"]

    assert facts["rule"] == "open-transaction"
    assert facts["transaction"] == {"producer_id": 4000, "first_offset": 0}


async def test_explain_names_what_switches_the_cleaner_off(tmp_path: Path) -> None:
    """The broker's setting and where it came from."""
    home = Home(tmp_path, log_cleaner_enable="false")
    await home.open()
    await home.create()
    home.fill(home.log())

    (facts,) = (await home.json("GET", "/v1/explain"))["partitions"]

    assert facts["rule"] == "cleaner-off"
    assert facts["setting"]["name"] == "log.cleaner.enable"
    await home.close()


async def test_explain_of_thousands_gives_way(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered in pieces, and nobody else waits for more than a few milliseconds."""
    await home.create("orders", 500)
    ticks = itertools.count()
    set_seconds(monkeypatch, lambda: float(next(ticks)))

    response = await home.ask("GET", "/v1/explain")

    assert not isinstance(response.body, bytes)
    pieces = [piece async for piece in response.body]
    assert len(pieces) > 100
    assert len(json.loads(b"".join(pieces))["partitions"]) == 500


async def test_dry_run_predicts_what_the_pass_does(home: Home) -> None:
    """By reason, in records and bytes; the log is untouched."""
    await home.create()
    home.fill(home.log(), 3)

    (prediction,) = (await home.json("POST", "/v1/dry-run?topic=orders"))["predictions"]

    assert prediction["records_dropped"]["superseded"] == 20
    assert (prediction["records_in"], prediction["records_out"]) == (30, 10)
    assert (prediction["passes"], prediction["end_offset"]) == (1, 30)
    assert len(read_all(home.log())) == 30
    await home.cleaning.start()
    await passes(home, 1)
    (event,) = await history(home)
    assert event["prediction_held"] is True
    assert event["records_dropped"] == prediction["records_dropped"]
    assert event["bytes_out"] == prediction["bytes_out"]


async def history(home: Home, query: str = "") -> list[dict[str, Any]]:
    """Return what the history page answers."""
    answer = await home.ask("GET", f"/v1/cleaner-history{query}")
    return [json.loads(line) for line in (await body(answer)).splitlines()]


async def test_dry_run_where_there_is_nothing(home: Home) -> None:
    """An empty partition and one that is being cleaned are told apart."""
    await home.create("orders", 2)
    home.fill(home.log())
    assert home.cleaning.manager.take(home.log())

    answers = (await home.json("POST", "/v1/dry-run"))["predictions"]

    assert [each["fault"] for each in answers] == [
        "somebody works on the partition now; ask again",
        "there is nothing to clean now",
    ]
    home.cleaning.manager.release(home.log())


async def test_dry_run_of_a_clean_log_tells_what_expired(home: Home) -> None:
    """Nothing is dirty, but a pass that somebody asks for would take the tombstones: so it says."""
    await home.services.topics.create("orders", 1, {**COMPACT, "delete.retention.ms": "1000"})
    append_unchecked(home.log(), [(b"gone", None), (b"kept", b"value")])
    home.log().roll()
    await home.cleaning.start()
    await passes(home, 1)
    home.clock.advance(2_000)

    (prediction,) = (await home.json("POST", "/v1/dry-run?topic=orders"))["predictions"]

    assert prediction["records_dropped"]["tombstone_expired"] == 1
    assert (prediction["records_in"], prediction["records_out"]) == (2, 1)
    await home.ask("POST", "/v1/clean?topic=orders")
    await passes(home, 2)
    event = (await history(home))[-1]
    assert event["prediction_held"] is True
    assert event["records_dropped"] == prediction["records_dropped"]


async def test_clean_asks_for_a_pass(home: Home) -> None:
    """Whatever the ratio; idle threads are woken."""
    sparing = {**COMPACT, "min.cleanable.dirty.ratio": "0.9"}
    await home.services.topics.create("orders", 1, sparing)
    home.fill(home.log(), 3)
    await home.cleaning.start()
    await passes(home, 1)
    home.fill(home.log(), 1)

    answer = await home.ask("POST", "/v1/clean?topic=orders")

    assert answer.status == 202
    await passes(home, 2)
    assert [event["requested"] for event in await history(home)] == [False, True]
    assert await history(home, "?topic=others") == []


async def test_clean_asks_for_nothing_where_there_is_nothing_to_clean(home: Home) -> None:
    """The answer says why, and no pass is asked for; of several partitions it counts the others."""
    await home.create("orders", 2)
    empty = await home.ask("POST", "/v1/clean?topic=orders&partition=1")
    both = await home.ask("POST", "/v1/clean?topic=orders")
    home.fill(home.log(), 2)
    some = await home.json("POST", "/v1/clean?topic=orders")

    assert (empty.status, both.status) == (409, 409)
    said = await body(empty)
    assert said == b"there is nothing to clean in orders-1 now: there is nothing in it\n"
    said = await body(both)
    assert said == b"there is nothing to clean in orders now; ask siltstone explain orders why\n"
    assert some["requested"] == [{"topic": "orders", "partition": 0}]
    assert some["nothing_to_clean"] == 1
    assert home.cleaning.manager.is_requested(ORDERS)
    assert not home.cleaning.manager.is_requested(TopicPartition("orders", 1))


async def test_clean_is_refused_while_the_cleaner_is_off(home: Home) -> None:
    """Nobody would ever do it."""
    await home.create()
    home.fill(home.log(), 2)
    await home.services.settings.alter(cluster={"log.cleaner.threads": "0"})

    answer = await home.ask("POST", "/v1/clean?topic=orders")

    assert answer.status == 409
    assert b"nothing is cleaned while log.cleaner.threads=0" in await body(answer)


async def test_scrape_amid_recovery_forgets_no_pass(tmp_path: Path) -> None:
    """A page that asks for the cleaner before the logs are open gets one without them."""
    home = await Home(tmp_path).open()
    await home.create()
    home.fill(home.log(), 3)
    await home.cleaning.start()
    await passes(home, 1)
    before = home.cleaning.pool.get().services.figures.last[ORDERS]
    await home.close()
    home = await Home(tmp_path).open()
    opened = dict(home.services.logs.logs)
    home.services.logs.logs.clear()
    scraped(home)
    home.services.logs.logs.update(opened)

    await home.cleaning.start()

    assert home.cleaning.pool.get().services.figures.last[ORDERS] == before
    await home.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/clean", 400), ("/v1/clean?topic=nope", 404), ("/v1/clean?topic=plain", 409)],
)
async def test_clean_of_what_cannot_be_cleaned(home: Home, path: str, status: int) -> None:
    """No topic, an unknown one, one that is not compacted."""
    await home.services.topics.create("plain", 1, {})

    assert (await home.ask("POST", path)).status == status


def scraped(home: Home) -> dict[tuple[str, ...], Any]:
    """Return the cleaner's metrics: name without its prefix and labels, and the value."""
    sources = make_sources({})
    sources = replace(sources, topics=home.services.topics, cleaning=home.cleaning)
    sources, walk = sources.begin()
    assert all(step is PAUSE for step in walk)
    found = {}
    for metric in CLEANER_METRICS:
        for labels, value in rows_of(metric, sources):
            found[metric.name, *labels] = value
    return found


async def test_metrics_tell_of_passes(home: Home) -> None:
    """Kafka's gauges and ours: what was dropped and why, and what is left to be done."""
    await home.create("orders", 2)
    home.fill(home.log(), 3)
    before = scraped(home)
    await home.cleaning.start()
    await passes(home, 1)
    home.clock.advance(5000)

    after = scraped(home)

    assert before["siltstone_cleaner_dirty_ratio", "orders", "0"] == 1.0
    assert before["siltstone_cleaner_cleanable_bytes", "orders", "0"] > 0
    assert after["siltstone_cleaner_dirty_ratio", "orders", "0"] == 0.0
    assert after["siltstone_cleaner_passes", "cleaned"] == 1
    assert after["siltstone_cleaner_records_dropped", "superseded"] == 20
    assert after["siltstone_cleaner_records_dropped", "tombstone_expired"] == 0
    assert after["kafka_log_logcleaner_cleaner_recopy_percent",] > 0
    assert after["kafka_log_logcleaner_max_buffer_utilization_percent",] > 0
    assert after["kafka_log_logcleanermanager_max_dirty_percent",] in {0, 100}
    assert after["kafka_log_logcleanermanager_time_since_last_run_ms",] == 5000
    assert after["kafka_utils_throttler_cleaner_io",] > 0
    assert after["siltstone_cleaner_threads",] == 1
    assert after["siltstone_cleaner_last_pass_timestamp_seconds", "orders", "0"] > 1e9


async def test_failures_are_remarks(home: Home) -> None:
    """As `siltstone health` shows it: which partition, why, and when it is tried again."""
    topic = await home.create()
    assert home.cleaning.remarks() == []
    log = topic.logs[0]
    assert log is not None

    home.cleaning.manager.set_aside(log, ValueError("a bad batch"))

    (remark,) = home.cleaning.remarks()
    assert remark.startswith(
        "partition orders-0 is not compacted: the last pass failed (ValueError: a bad batch); it "
        "is tried again at "
    )
    assert remark.endswith("siltstone explain orders-0 says more")


async def test_metrics_tell_of_failures(home: Home) -> None:
    """Which partition, why, and how many bytes wait in which directory."""
    await home.create()
    home.fill(home.log(), 3)
    grabbed = home.cleaning.manager.grab_filthiest()
    assert grabbed is not None
    home.cleaning.manager.fail(grabbed, ValueError("no batch"))

    found = scraped(home)

    directory = str(home.paths[0])
    manager = "kafka_log_logcleanermanager"
    assert found[f"{manager}_uncleanable_partitions_count", directory] == 1
    assert found[f"{manager}_uncleanable_bytes", directory] == grabbed.cleanable.cleanable_bytes
    assert found["siltstone_cleaner_partition_failures", "orders", "0", "ValueError"] == 1
