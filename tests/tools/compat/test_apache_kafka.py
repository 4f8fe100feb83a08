"""The output of the launcher of Apache Kafka's own tests, and what it says about each method."""

from tools.compat.apache_kafka import read_feed
from tools.compat.suite import Outcome

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def feed(*runs: tuple[str, str]) -> str:
    """Return what is printed while these runs of tests of a class begin and end."""
    lines = ["WARN StreamsConfig some :: FAILED line of a log"]
    for run, end in runs:
        lines += [
            f"JUnit Jupiter > SomeTest > {run} :: {word}" for word in ("STARTED", end) if word
        ]
    return "\n".join(lines) + "\n"


def test_a_method_is_as_its_runs() -> None:
    """One must pass and none fail; those that skip themselves prove nothing."""
    outcomes = read_feed(
        feed(
            ("plain()", "SUCCESSFUL"),
            ("some(String) > [1] protocol=classic", "SUCCESSFUL"),
            ("some(String) > [2] protocol=streams", "ABORTED"),
            ("bad(boolean) > [1] true", "FAILED"),
            ("bad(boolean) > [2] false", "SUCCESSFUL"),
            ("idle(boolean) > [1] true", "ABORTED"),
        )
    )

    assert outcomes == {"plain": PASSED, "some": PASSED, "bad": FAILED, "idle": SKIPPED}


def test_what_ended_counts_where_a_class_took_too_long() -> None:
    """The method that was running then failed, also if an earlier run of it passed."""
    outcomes = read_feed(
        feed(
            ("first()", "SUCCESSFUL"),
            ("slow(int) > [1] 1", "SUCCESSFUL"),
            ("slow(int) > [2] 2", ""),
        )
    )

    assert outcomes == {"first": PASSED, "slow": FAILED}
