"""Changes by reading the settings again, and things that it leaves."""

from pathlib import Path

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.load import load, load_again
from siltstone.config.reloading import HIDDEN, Plan, find_differences, make_plan


class Sources:
    """A file, and the layers of a broker that started with it."""

    def __init__(self, folder: Path, text: str, *sets: str) -> None:
        self.path = folder / "server.yaml"
        self.path.write_text(text)
        self.layers = load(self.path, {}, sets)

    def plan(self, text: str) -> Plan:
        """Return what another text would change."""
        self.path.write_text(text)
        return make_plan(self.layers, load_again(self.layers))


def test_what_may_change_is_taken_and_the_rest_waits(tmp_path: Path) -> None:
    """Each with old, new and the line that says so."""
    sources = Sources(tmp_path, "log.retention.ms: 1000\nnum.io.threads: 4\n")

    plan = sources.plan("num.io.threads: 5\n\nlog.retention.ms: 2000\n")

    path = sources.path
    assert plan.now == (("log.retention.ms", "1000", "2000", f"{path} line 3"),)
    assert plan.restart == (("num.io.threads", "4", "5", f"{path} line 1"),)
    assert plan.layers.topic().retention_ms == 2000
    assert plan.layers.server().num_io_threads == 4
    again = make_plan(plan.layers, load_again(plan.layers))
    assert (again.now, again.restart) == ((), plan.restart)


def test_a_line_that_is_gone_gives_the_default_back(tmp_path: Path) -> None:
    """As if it had never been given."""
    sources = Sources(tmp_path, "log.cleaner.backoff.ms: 1\nmax.connections: 7\n")

    plan = sources.plan("max.connections: 7\n")

    assert plan.now == (("log.cleaner.backoff.ms", "1", "15000", "default"),)
    assert plan.layers.where("max.connections").endswith("line 1")


def test_hours_are_taken_as_milliseconds_are(tmp_path: Path) -> None:
    """Every name that gives a default of topics counts at once."""
    sources = Sources(tmp_path, "log.retention.hours: 1\n")

    plan = sources.plan("log.retention.hours: 2\n")

    assert [each.name for each in plan.now] == ["log.retention.hours"]
    assert plan.layers.topic().retention_ms == 7_200_000


def test_a_dynamic_value_wins_and_is_named(tmp_path: Path) -> None:
    """Also over another name of the same setting, but not over the command line's equal."""
    sources = Sources(tmp_path, "log.retention.hours: 1\nlog.segment.bytes: 2000000\n")
    sources.layers = sources.layers.with_dynamic(
        cluster={"log.retention.ms": "5"}, broker={"log.segment.bytes": "3000000"}
    )

    plan = sources.plan("log.retention.hours: 2\nlog.segment.bytes: 4000000\n")

    assert [each[:2] + each[3:] for each in plan.shadowed] == [
        ("log.retention.hours", "2", "log.retention.ms", "5", "dynamic for all brokers"),
        ("log.segment.bytes", "4000000", "log.segment.bytes", "3000000", "dynamic for this broker"),
    ]
    assert plan.layers.topic().retention_ms == 5
    assert plan.layers.topic().segment_bytes == 3_000_000
    assert "log.segment.bytes" not in {each.name for each in plan.now}


def test_set_and_environment_stay_over_the_file(tmp_path: Path) -> None:
    """The file cannot change a setting of the command line."""
    sources = Sources(tmp_path, "max.connections: 7\n", "max.connections=9")

    plan = sources.plan("max.connections: 8\n")

    assert (plan.now, plan.restart) == ((), ())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("max.connections: many\n", "line 1: max.connections is many"),
        ("log.retention: 5\n", "log.retention is not a setting; did you mean log.retention"),
        ("a: b: c\n", "line 1: this is not YAML"),
        (
            "log.cleaner.min.compaction.lag.ms: 5\nlog.cleaner.max.compaction.lag.ms: 4\n",
            "the first must not be larger",
        ),
        ("log.cleaner.threads: 9\n", "it can at most be halved or doubled"),
        ("ssl.keystore.location: x\n", "promises TLS"),
    ],
)
def test_a_faulty_file_is_no_plan(text: str, fault: str, tmp_path: Path) -> None:
    """And its faults are named, as at a start."""
    sources = Sources(tmp_path, "max.connections: 7\n")

    with pytest.raises(ConfigError) as caught:
        sources.plan(text)

    assert fault in str(caught.value)


def test_a_file_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    """And not a file without settings."""
    sources = Sources(tmp_path, "max.connections: 7\n")
    sources.path.unlink()

    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_again(sources.layers)


def test_secrets_are_hidden(tmp_path: Path) -> None:
    """A plug-in's settings may be secrets: that they changed is told, and no more."""
    sources = Sources(tmp_path, "config.providers.vault.token: hush\n")

    plan = sources.plan("config.providers.vault.token: quiet\n")

    (change,) = plan.now
    assert change[:3] == ("config.providers.vault.token", HIDDEN, HIDDEN)


def test_equal_values_are_no_difference() -> None:
    """However they are written."""
    before, after = (load(None, {}, [f"log.retention.ms={text}"]) for text in ("5", " 5 "))

    assert list(find_differences(before, after)) == []
