"""Options: Spark's names in any case, all faults at once, nothing silently ignored."""

import pytest

from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import EARLIEST, LATEST, ReadOptions
from siltstone.storage.topic_partition import TopicPartition


def parse(**options: str) -> ReadOptions:
    """Return options of the topic ``t`` unless they name others."""
    return ReadOptions.parse({"subscribe": "t", **options})


def test_names_are_those_of_sparks_kafka_source() -> None:
    """Names count in any case, values mean what they mean there."""
    found = ReadOptions.parse(
        {
            "SUBSCRIBE": "a, b",
            "startingoffsets": '{"a":{"0":23,"1":-2}}',
            "endingOffsets": "latest",
            "failOnDataLoss": "FALSE",
            "kafka.bootstrap.servers": "h:1",
            "kafka.isolation.level": "read_committed",
            "kafka.security.protocol": "SSL",
            "pinLeaseMs": "15m",
        }
    )

    assert found.subscribe == ("a", "b")
    assert found.starting_offsets == {TopicPartition("a", 0): 23, TopicPartition("a", 1): EARLIEST}
    assert found.ending_offsets == LATEST
    assert not found.fail_on_data_loss
    assert found.is_committed
    assert found.kafka == {"security.protocol": "SSL"}
    assert found.pin_lease_ms == 900_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffset": "1"}, "no option startingOffset; did you mean startingOffsets?"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is true or false, not 'perhaps'"),
        ({"splitBytes": "many"}, "splitBytes is a number of bytes such as 64m, not 'many'"),
        ({"minPartitions": "-1"}, "minPartitions is a whole number, not '-1'"),
        ({"assign": '{"t":[0]}'}, "by exactly one of subscribe, subscribePattern, assign"),
        ({"startingOffsets": '{"t":5}'}, "startingOffsets is JSON such as"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "has offset -3; -2 is earliest, -1 is latest"),
        ({"timestampFrom": "yesterday"}, "timestampFrom is a time such as 2026-11-01T12:00:00"),
        ({"transport": "pigeon"}, "transport is one of auto, pinned, fetch, archive"),
        ({"STARTINGOFFSETS": "x"}, "option startingOffsets is JSON such as"),
        ({"kafka.Auto.Offset.Reset": "earliest"}, "no effect here: startingOffsets says where"),
        ({"pinLeaseMs": "soon"}, "pinLeaseMs is a time such as 15m"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], sentence: str) -> None:
    """The sentence says which option, and what it may be."""
    with pytest.raises(BadOption) as caught:
        parse(**options)

    assert sentence in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    """Nobody wants to learn of the second mistake after the first."""
    with pytest.raises(BadOption) as caught:
        parse(untilNow="x", splitBytes="y", nonsense="z")

    assert str(caught.value).count(";") >= 2


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64m", 64 << 20), ("64MB", 64 << 20), ("2 GiB", 2 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    """Bytes may have a unit."""
    assert parse(splitBytes=text).split_bytes == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14 23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    """Times are ms or ISO 8601, in UTC unless they say otherwise."""
    assert parse(timestampFrom=text).time_from == milliseconds


def test_what_only_the_connector_obeys_is_let_pass() -> None:
    """A job that moves over need not be cleaned of what has no meaning here."""
    assert parse(groupIdPrefix="x", **{"fetchOffset.numRetries": "3"}).subscribe == ("t",)
