"""What the README tells a stranger to type, typed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.missing import require

pytestmark = [pytest.mark.client, pytest.mark.java]

Broker = SiltstoneProcess | KafkaBroker
README = Path(__file__).parents[2] / "README.md"
SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}


def block(language: str, word: str) -> str:
    """Return the README's one code block of a language that has a word in it."""
    text = README.read_text()
    (found,) = [
        code for code in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if word in code
    ]
    return str(found)


@pytest.fixture
def scripts(kafka_tools: KafkaTools, tmp_path: Path) -> Path:
    """A folder with Kafka's shell scripts, as its download has them."""
    for name, main in SCRIPTS.items():
        command = shlex.join(kafka_tools.jars.command("tool", main))
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    return tmp_path


def typed(code: str, broker: Broker, path: Path) -> str:
    """Run a shell block against the broker and return what it prints."""
    done = subprocess.run(
        ["sh", "-eu", "-c", code.replace("127.0.0.1:9092", broker.bootstrap)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kcat_and_console_tools_do_what_the_readme_says(broker: Broker, scripts: Path) -> None:
    """The two shell blocks run as they stand, the second reads what the first wrote."""
    require("kcat")

    with_kcat = typed(block("sh", "kcat"), broker, scripts)
    with_tools = typed(block("sh", "kafka-topics.sh"), broker, scripts)

    assert with_kcat == "fruit:apple\ncolour:green\n"
    assert "Created topic orders." in with_tools
    assert re.findall(r"orders:\d:(\d)", with_tools).count("1") == 1
    assert "Completed updating config for topic orders." in with_tools
    assert "apple\ngreen\n" in with_tools


def test_kafka_python_does_what_the_readme_says(broker: Broker) -> None:
    """The Python block runs as it stands."""
    code = block("python", "KafkaConsumer").replace("127.0.0.1:9092", broker.bootstrap)

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.stdout == "0 b'en' b'good morning'\n", done.stderr
