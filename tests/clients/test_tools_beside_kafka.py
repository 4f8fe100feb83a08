"""Kafka's own tools answer with us as with Apache Kafka, but for what docs/tools.md says."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.console import Answer, Console, differences
from tests.support.kafka import KafkaBroker, KafkaJars, KafkaTools
from tests.support.oracle import Broker, is_kafka
from tests.support.tool_server import ToolServer
from tests.support.waiting import wait_until
from tools.console_tools import STEPS, Scene, Step, read_steps

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
}
READS = ("describe", "list", "--describe", "--list", "--time")
"""Words of commands that change nothing, so that they can be typed until a change is announced."""


def test_the_answers_are_those_of_the_page(
    request: pytest.FixtureRequest, kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    """Each step is played with us, then with Apache Kafka, whose brokers learn of changes later."""
    if is_kafka(request):
        pytest.skip("--broker=kafka: a test of both")
    steps = list(read_steps(STEPS.read_text()))

    ours = play(steps, SiltstoneProcess(tmp_path / "ours", SETTINGS), kafka_jars, tmp_path / "we")
    theirs = play(
        steps, KafkaBroker(kafka_jars, tmp_path / "kafka", SETTINGS), kafka_jars, tmp_path / "they",
        ours,
    )  # fmt: skip

    wrong = {}
    for step, their, our in zip(steps, theirs, ours, strict=True):
        if isinstance(step, Step):
            found = differences(step, their, our)
            if found != said(step):
                wrong[step.command] = "\n".join(
                    [f"- {line}" for line in found[0]] + [f"+ {line}" for line in found[1]]
                )
    assert not wrong, "\n\n".join(f"$ {command}\n{lines}" for command, lines in wrong.items())


def play(
    steps: list[Step | Scene],
    broker: Broker,
    jars: KafkaJars,
    folder: Path,
    others: list[Answer] | None = None,
) -> list[Answer]:
    """Return the answer to each step, which waits until it is as expected beside those of others.

    What never comes to be so is in the answer.
    """
    folder.mkdir()
    answers = []
    with closing(broker), closing(ToolServer(jars, keeps=True)) as server:
        broker.start()
        with closing(Console(broker, KafkaTools(jars, server), folder)) as console:
            for index, step in enumerate(steps):
                if isinstance(step, Scene):
                    console.act(step.name)
                    answers.append(Answer(0, ()))
                elif others is None or not any(word in step.words.split() for word in READS):
                    answers.append(console.type(step))
                else:
                    answers.append(settled(console, step, others[index]))
    return answers


def settled(console: Console, step: Step, other: Answer) -> Answer:
    """Return the answer of Apache Kafka when it is as expected, or after some seconds as it is."""
    last = []

    def look() -> Answer:
        last.append(console.type(step))
        return last[-1]

    try:
        return wait_until(
            look,
            step.command,
            lambda answer: differences(step, answer, other) == said(step),
            timeout=5,
        )
    except TimeoutError:
        return last[-1]


def said(step: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines of the page."""
    return tuple(sorted(step.theirs)), tuple(sorted(step.ours))
