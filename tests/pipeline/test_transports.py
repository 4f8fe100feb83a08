"""The three transports against a running broker: the same rows, whichever way they come."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.types import LongType, StructField, StructType

from siltstone.pipeline.client.cluster import Cluster
from siltstone.pipeline.client.pins import find_control, release_pin
from siltstone.pipeline.client.wire import Exchange, Wire
from siltstone.pipeline.errors import BadOption, DataLost, SnapshotExpired, SourceUnavailable
from siltstone.pipeline.jobs.reading import moment_of
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.source.batch import BatchReader
from siltstone.pipeline.source.stream import timeless
from siltstone.pipeline.transports import choose, open_source
from siltstone.protocol.errors import ErrorCode
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.directory.meta_properties import MetaProperties
from tests.support.archives import read_splits
from tests.support.broker import SiltstoneProcess, a_process
from tests.support.kafka import KafkaBroker
from tests.support.produced import create_topic, delete_topic, numbered, produce

names = (f"transport-{number}" for number in count())
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")

pytestmark = pytest.mark.client


served = a_process()


def options(served: SiltstoneProcess, topic: str, **more: str) -> ReadOptions:
    """Return options that leave the choice of the transport open."""
    return ReadOptions.parse(
        {
            "subscribe": topic,
            "data": str(served.folder),
            "kafka.bootstrap.servers": served.bootstrap,
            **more,
        }
    )


def rows(read: ReadOptions, columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    """Return the rows of a read."""
    with open_source(read) as source:
        found: list[dict[str, Any]] = read_splits(source.plan(source.view()), columns).to_pylist()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_pinned_and_fetch_read_the_same(served: SiltstoneProcess, codec: str) -> None:
    """Files and network give equal rows, of every codec as a stock client writes it."""
    topic = next(names)
    create_topic(served.bootstrap, topic, partitions=2, config={"segment.bytes": "100000"})
    records = [
        {**each, "partition": number % 2, "headers": [("n", b"%d" % number)]}
        for number, each in enumerate(numbered(3000))
    ]
    produce(served.bootstrap, topic, records, **{"compression.type": codec})

    pinned = rows(options(served, topic, transport="pinned", splitBytes="50k"))
    fetched = rows(options(served, topic, transport="fetch", maxRecordsPerPartition="700"))

    assert len(pinned) == 3000
    assert pinned == fetched
    assert {row["key"]: row["headers"] for row in pinned} == {
        each["key"]: [{"key": "n", "value": each["headers"][0][1]}] for each in records
    }


def test_the_transport_is_chosen_by_what_is_visible(
    served: SiltstoneProcess, tmp_path: Path
) -> None:
    """A served folder is pinned, one at rest is an archive, an address alone is asked."""
    assert choose(options(served, "t")) == "pinned"
    assert choose(options(served, "t", data=str(tmp_path))) == "archive"
    assert choose(options(served, "t", data=str(tmp_path / "not here"))) == "fetch"
    with pytest.raises(BadOption, match="no option says where the topics are"):
        choose(ReadOptions.parse({"subscribe": "t"}))


def test_an_address_is_enough_to_pin(served: SiltstoneProcess) -> None:
    """A broker says where its folder is; a job that sees it reads the files."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, numbered(30))
    asked = {"subscribe": topic, "kafka.bootstrap.servers": served.bootstrap}

    with open_source(ReadOptions.parse(asked)) as source:
        (split,) = source.plan(source.view())

        assert source.name == "pinned"
        assert split.lease is not None
        assert split.lease.data == str(served.folder)
        assert read_splits([split]).num_rows == 30


def seen_from_elsewhere(split: Split, data: Path) -> Split:
    """Return a split as a machine gets it that has another folder, or none, at the same path."""
    assert split.lease is not None
    return replace(split, lease=replace(split.lease, data=str(data)))


def another_brokers_folder(place: Path, served: SiltstoneProcess) -> Path:
    """Return a folder such as the broker has, of another cluster."""
    place.mkdir()
    for name in (files.CONTROL_TOKEN, files.CONTROL_ADDRESS, files.META_PROPERTIES):
        (place / name).write_bytes((served.folder / name).read_bytes())
    properties = MetaProperties.read(place)
    assert properties is not None
    replace(properties, cluster_id="another").write(place, now_ms=0)
    return place


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_machine_that_does_not_see_the_pin_asks_the_broker(
    served: SiltstoneProcess, tmp_path: Path, policy: str, is_there: bool
) -> None:
    """It reads the same offsets over the network, also where it has another broker's folder."""
    topic = next(names)
    create_topic(served.bootstrap, topic, config={"cleanup.policy": policy})
    produce(served.bootstrap, topic, numbered(30))
    place = tmp_path / "elsewhere"
    if is_there:
        another_brokers_folder(place, served)
    with open_source(options(served, topic, transport="pinned")) as source:
        (split,) = source.plan(source.view())
        elsewhere = seen_from_elsewhere(split, place)
        if policy == "delete":
            produce(served.bootstrap, topic, numbered(30))

        assert read_splits([elsewhere], COLUMNS).equals(read_splits([split], COLUMNS))


def test_a_compacted_topic_that_grows_is_read_where_its_pin_is_seen(
    served: SiltstoneProcess, tmp_path: Path
) -> None:
    """Over the network keys with newer values may be missing, which is refused where it may be."""
    topic = next(names)
    create_topic(served.bootstrap, topic, config={"cleanup.policy": "compact"})
    produce(served.bootstrap, topic, numbered(30))
    with open_source(options(served, topic, transport="pinned")) as source:
        (split,) = source.plan(source.view())
        produce(served.bootstrap, topic, numbered(1))

        with pytest.raises(SnapshotExpired, match=r"has grown since .* transport=fetch"):
            read_splits([seen_from_elsewhere(split, tmp_path)])
        assert read_splits([seen_from_elsewhere(timeless(split), tmp_path)]).num_rows == 30


def test_a_machine_that_knows_neither_pin_nor_broker(
    served: SiltstoneProcess, tmp_path: Path
) -> None:
    """It says which option lets it read."""
    create_topic(served.bootstrap, topic := next(names))
    produce(served.bootstrap, topic, numbered(30))
    with open_source(ReadOptions.parse({"subscribe": topic, "data": str(served.folder)})) as source:
        (split,) = source.plan(source.view())

        with pytest.raises(SourceUnavailable, match=r"does not see .* kafka\.bootstrap\.servers"):
            read_splits([seen_from_elsewhere(split, tmp_path)])


def test_a_live_folder_is_no_archive(served: SiltstoneProcess) -> None:
    """Files that a broker changes are read through a pin."""
    archive = {"subscribe": "t", "archive": str(served.folder)}

    with pytest.raises(SourceUnavailable, match=r"a broker works in .* transport=pinned"):
        open_source(ReadOptions.parse(archive))


def test_a_pin_outlives_its_topic(served: SiltstoneProcess) -> None:
    """Pinned records are read although the topic is gone meanwhile; the network knows better."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, numbered(100))
    with open_source(options(served, topic, transport="pinned")) as pinned:
        splits = pinned.plan(pinned.view())
        with open_source(options(served, topic, transport="fetch")) as fetching:
            network = fetching.plan(fetching.view())
        delete_topic(served.bootstrap, topic)

        assert read_splits(splits, ("offset",)).num_rows == 100
        with pytest.raises(DataLost, match="the topic was deleted"):
            read_splits(network, ("offset",))
        create_topic(served.bootstrap, topic)
        with pytest.raises(DataLost, match="was deleted and made again"):
            read_splits(network, ("offset",))


def test_a_pin_that_has_ended(served: SiltstoneProcess) -> None:
    """The moment is over, which is said: values may be gone."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, numbered(10))
    with open_source(options(served, topic, transport="pinned")) as source:
        view = source.view()
        splits = source.plan(view)
        release_pin(find_control(served.folder), view.pin)

        with pytest.raises(SnapshotExpired, match="the moment at which"):
            read_splits(splits)


@pytest.mark.slow
def test_a_broker_that_stops_in_mid_read(tmp_path: Path) -> None:
    """Pinned files outlive the process; after its next start they are gone, and that is said."""
    process = SiltstoneProcess(tmp_path / "broker")
    process.start()
    create_topic(process.bootstrap, "t", config={"cleanup.policy": "compact"})
    produce(process.bootstrap, "t", numbered(100))
    source = open_source(options(process, "t", transport="pinned"))
    splits = source.plan(source.view())
    process.kill()

    assert read_splits(splits, ("offset",)).num_rows == 100
    process.start()
    with pytest.raises(SnapshotExpired):
        read_splits(splits, ("offset",))
    process.close()


def test_a_pin_is_one_moment_of_all_partitions(served: SiltstoneProcess) -> None:
    """Records that are written after the pin are not seen, in whichever partition."""
    topic = next(names)
    create_topic(served.bootstrap, topic, partitions=3)
    for partition in range(3):
        produce(served.bootstrap, topic, numbered(50, partition=partition))
    with open_source(options(served, topic, transport="pinned")) as source:
        view = source.view()
        for partition in range(3):
            produce(served.bootstrap, topic, numbered(50, first=50, partition=partition))

        found = read_splits(source.plan(view), ("partition", "offset")).to_pylist()

    assert len(found) == 150
    assert max(row["offset"] for row in found) == 49


@pytest.mark.parametrize("transport", ["pinned", "fetch"])
def test_what_is_aborted_is_not_read(served: SiltstoneProcess, transport: str) -> None:
    """read_committed has the records of committed transactions and plain ones, as a consumer."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    producer = Producer({"bootstrap.servers": served.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for index in range(20):
            producer.produce(topic, key=b"%d" % turn, value=b"%d" % index)
        assert producer.flush(30) == 0  # an abort drops what was not sent yet
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    committed = rows(
        options(served, topic, transport=transport, **{"kafka.isolation.level": "read_committed"})
    )
    everything = rows(options(served, topic, transport=transport))

    assert [row["key"] for row in committed] == [b"0"] * 20 + [b"2"] * 20 + [b"4"] * 20
    assert len(everything) == 120


def test_fetch_by_offsets_and_times(served: SiltstoneProcess) -> None:
    """Starts by offset and by time are those of ListOffsets."""
    topic = next(names)
    create_topic(served.bootstrap, topic, config={"retention.ms": "-1"})
    start = 1_700_000_000_000
    timed = [{**each, "timestamp": start + 1000 * n} for n, each in enumerate(numbered(100))]
    produce(served.bootstrap, topic, timed)

    by_offset = rows(
        options(
            served,
            topic,
            transport="fetch",
            startingOffsets=f'{{"{topic}":{{"0":20}}}}',
            endingOffsets=f'{{"{topic}":{{"0":23}}}}',
        )
    )
    by_time = rows(
        options(
            served,
            topic,
            transport="fetch",
            startingTimestamp=str(start + 97_500),
            timestampTo=str(start + 99_000),
        )
    )

    assert [row["offset"] for row in by_offset] == [20, 21, 22]
    assert [row["offset"] for row in by_time] == [98]


def test_offsets_below_the_logs_start_over_the_network(served: SiltstoneProcess) -> None:
    """A segment that retention took after planning is data loss, or is passed over."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, numbered(50))
    plans = []
    for fails in ("true", "false"):
        with open_source(options(served, topic, transport="fetch", failOnDataLoss=fails)) as source:
            plans += source.plan(source.view())
    _delete_records(served.bootstrap, topic, 30)

    with pytest.raises(DataLost, match=r"offset 0 of .* no longer exists: the log has 30"):
        list(scan(plans[0]))

    assert [batch.num_rows for batch in scan(plans[1])] == [20]


def test_nobody_answers(tmp_path: Path) -> None:
    """A broker that does not answer is one sentence."""
    asked = ReadOptions.parse({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(SourceUnavailable, match=r"no Kafka broker answers at 127\.0\.0\.1:1"):
        open_source(asked)
    with pytest.raises(SourceUnavailable, match="has no control token"):
        open_source(
            ReadOptions.parse({"subscribe": "t", "transport": "pinned", "data": str(tmp_path)})
        )


def test_settings_that_fetch_does_not_obey_are_refused() -> None:
    """A security setting is never silently left out."""
    asked = ReadOptions.parse(
        {
            "subscribe": "t",
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.ssl.engine.factory.class": "x",
        }
    )

    with pytest.raises(BadOption, match=r"does not know kafka\.ssl"):
        open_source(asked)


@pytest.mark.java
def test_fetch_reads_apache_kafka(kafka_broker: KafkaBroker) -> None:
    """Any Kafka broker will do: here the reference itself, compressed batches and all."""
    kafka_broker.start()
    create_topic(kafka_broker.bootstrap, "t", partitions=2)
    for partition in range(2):
        made = numbered(2000, partition=partition)
        produce(kafka_broker.bootstrap, "t", made, **{"compression.type": "lz4"})

    found = rows(
        ReadOptions.parse({"subscribe": "t", "kafka.bootstrap.servers": kafka_broker.bootstrap})
    )

    assert [(row["partition"], row["key"]) for row in found] == [
        (partition, b"k%d" % index) for partition in range(2) for index in range(2000)
    ]


def _delete_records(bootstrap: str, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition  # noqa: PLC0415 - another one is ours
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - likewise

    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    deleted.result(30)


def test_a_second_action_reads_what_the_first_has_pinned(served: SiltstoneProcess) -> None:
    """Spark plans a DataFrame once; when its pin is gone the sentence says what to do."""
    topic = next(names)
    create_topic(served.bootstrap, topic, config={"cleanup.policy": "compact"})
    produce(served.bootstrap, topic, numbered(30))
    given = {"subscribe": topic, "data": str(served.folder), "transport": "pinned"}
    reader = BatchReader(given, StructType([StructField("offset", LongType())]))
    control = find_control(served.folder)
    (planned,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(planned)) == 30
    (pin,) = (one for one in control.ask("GET", "/v1/pins")["pins"] if one["topics"] == [topic])

    assert sum(batch.num_rows for batch in reader.read(planned)) == 30
    release_pin(control, pin["id"])
    with pytest.raises(SnapshotExpired, match="plans a DataFrame once, so load it again"):
        list(reader.read(planned))


def test_settings_that_this_user_may_not_see(
    served: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic whose settings are hidden may be compacted, and is read as one."""
    topic = next(names)
    create_topic(served.bootstrap, topic)
    monkeypatch.setattr(Cluster, "configs", lambda *_: {})

    with open_source(options(served, topic, transport="fetch")) as source:
        (partition,) = source.view().partitions

    assert partition.is_compacted
    assert f"does not tell the settings of {topic}" in caplog.text


@pytest.mark.parametrize("transport", ["fetch", "pinned"])
def test_a_compacted_topic_over_the_network(
    served: SiltstoneProcess, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing holds it still, so that keys may be missing, which a warning says."""
    topic = next(names)
    create_topic(served.bootstrap, topic, config={"cleanup.policy": "compact"})

    with moment_of(options(served, topic, transport=transport), Clock()):
        pass

    told = f"{topic} is compacted and read over the network" in caplog.text
    assert told == (transport == "fetch")


def test_a_broker_that_refuses_serves_its_folder(served: SiltstoneProcess, tmp_path: Path) -> None:
    """A folder is no archive where a broker answers, if only that the token is wrong."""
    (tmp_path / files.CONTROL_TOKEN).write_text("wrong")
    address = (served.folder / files.CONTROL_ADDRESS).read_text()

    assert choose(options(served, "t", data=str(tmp_path), control=address)) == "pinned"


def test_a_topic_whose_place_is_not_known_now(
    served: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern does not leave a topic out because its leader is being chosen."""
    create_topic(served.bootstrap, topic := next(names))
    ask = Wire.ask

    def without_leader(self: Wire, exchange: Exchange, request: Any) -> Any:
        answer = ask(self, exchange, request)
        code = ErrorCode.leader_not_available
        return answer._replace(
            topics=[
                each._replace(error_code=code) if each.name == topic else each
                for each in answer.topics
            ]
        )

    monkeypatch.setattr(Wire, "ask", without_leader)

    with Cluster(served.bootstrap, {}) as cluster, pytest.raises(SourceUnavailable, match=topic):
        cluster.leaders(None)
