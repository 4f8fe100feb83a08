"""A Java program of the tests, compiled against Kafka's jars at its first use."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.kafka import KafkaJars

SOURCES = Path(__file__).parents[1] / "kafka"


def compile_program(jars: KafkaJars, name: str) -> Path:
    """Return the folder of classes of tests/kafka/NAME.java; kept beside the jars.

    Raises:
        LookupError: a JDK is missing; the message begins with which.
    """
    source = SOURCES / f"{name}.java"
    digest = hashlib.sha256(source.read_bytes() + jars.stamp).hexdigest()[:12]
    classes = jars.folder.parent / "kafka-classes" / f"{name}-{digest}"
    if not classes.exists():
        javac = shutil.which("javac")
        if javac is None:
            raise LookupError("java: a JRE without javac")
        partial = classes.with_suffix(f".{os.getpid()}.partial")
        command = [javac, "-cp", f"{jars.folder}/*", "-d", str(partial), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        try:
            partial.replace(classes)
        except OSError:  # another process has compiled it meanwhile
            shutil.rmtree(partial)
    return classes


def run_program(jars: KafkaJars, name: str, *arguments: str) -> list[str]:
    """Return the command that runs a program."""
    command = jars.command("once", name, *arguments)
    place = command.index("-cp") + 1
    command[place] = f"{compile_program(jars, name)}:{command[place]}"
    return command
