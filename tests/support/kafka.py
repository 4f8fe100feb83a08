"""Apache Kafka from its Maven jars: the tools that people run, and the broker, our oracle."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.support.daemon import Daemon
from tests.support.ports import free_ports
from tests.support.programs import run_to_end
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
_SCRIPT = ROOT / "tests" / "kafka" / "jars.sh"
RELEASE = "4.4.0"
RELEASE_BEFORE = "4.3.1"
TOOLS = "org.apache.kafka.tools"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
READY = r"Kafka Server started"
FAST = ("-Xmx256m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
"""


def cache_folder() -> Path:
    """Return the cache for fetched and built files: $SILTSTONE_CACHE, else .cache here."""
    return Path(os.environ.get("SILTSTONE_CACHE") or ROOT / ".cache")


def copy_jars(pom: Path, name: str) -> None:
    """Copy the jars that the pom.xml of a folder names into the cache, if they are missing.

    Raises:
        LookupError: Maven is missing, or fails.
    """
    done = run_to_end([_SCRIPT, pom, name])
    if done.returncode:
        raise LookupError(f"mvn: {done.stderr.strip()}")


class KafkaJars:
    """The folder of jars, and beside it one archive of loaded classes for each kind of JVM.

    An archive (class data sharing) halves the start of a tool. The first run of a kind writes it at
    exit; a JVM that does not fit it ignores it. The kind "once" has none.
    """

    def __init__(self, folder: Path, java: str) -> None:
        self.folder = folder
        self.java = java
        self.stamp = (folder / ".pom.sha256").read_bytes()
        identity = Path(java).resolve().as_posix().encode() + self.stamp
        self._suffix = hashlib.sha256(identity).hexdigest()[:12]
        logging = folder / "log4j2.properties"
        if not logging.exists():
            logging.write_text(LOGGING)

    @classmethod
    def find(cls, release: str = RELEASE) -> "KafkaJars":
        """Copy the jars of a release if they are missing.

        Raises:
            LookupError: a JDK or Maven is missing; the message begins with which.
        """
        java = shutil.which("java")
        if java is None:
            raise LookupError("java: no JDK on the PATH")
        name = f"kafka-{release}"
        copy_jars(_SCRIPT.parent / ("" if release == RELEASE else release), name)
        return cls(cache_folder() / name, java)

    def command(self, kind: str, main: str, *arguments: str) -> list[str]:
        """Return the command that runs a class, with the class archive of its kind."""
        sharing = self._sharing(kind)
        return [
            self.java,
            *FAST,
            "-Xlog:disable",
            *sharing,
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            f"{self.folder}/*",
            main,
            *arguments,
        ]

    def _sharing(self, kind: str) -> list[str]:
        if kind == "once":
            return []
        archive = self.folder / f"{kind}-{self._suffix}.jsa"
        if archive.exists():
            return [f"-XX:SharedArchiveFile={archive}"]
        return [f"-XX:ArchiveClassesAtExit={self._partial(archive)}"]

    def keep_archive(self, kind: str) -> None:
        """Move the archive that a finished JVM wrote to the place where the next JVM finds it."""
        archive = self.folder / f"{kind}-{self._suffix}.jsa"
        partial = self._partial(archive)
        if partial.exists():
            partial.replace(archive)

    @staticmethod
    def _partial(archive: Path) -> Path:
        return archive.with_suffix(f".{os.getpid()}.partial")


def full_name(tool: str) -> str:
    """Return the class of a tool that is named as `TopicCommand` or in full."""
    return tool if tool.startswith(("kafka.", "org.")) else f"{TOOLS}.{tool}"


class ToolRunner(Protocol):
    """A runner of Kafka's tools."""

    def try_run(
        self, main: str, arguments: Sequence[str], stdin: str, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run the tool of a class and return how it went."""


class KafkaTools:
    """Kafka's command-line tools.

    Without a runner each has a JVM of its own, as the scripts in Kafka's bin folder start them.
    """

    def __init__(self, jars: KafkaJars, runner: ToolRunner | None = None) -> None:
        self.jars = jars
        self._runner = runner

    def try_run(
        self, tool: str, *arguments: str, stdin: str = "", timeout: float = PATIENCE
    ) -> "subprocess.CompletedProcess[str]":
        """Run a tool, named as `TopicCommand` or in full, and return how it went."""
        main = full_name(tool)
        if self._runner is not None:
            return self._runner.try_run(main, arguments, stdin, timeout)
        done = run_to_end(self.jars.command("tool", main, *arguments), input=stdin, timeout=timeout)
        self.jars.keep_archive("tool")
        return done

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout: float = PATIENCE) -> str:
        """Run a tool that must succeed and return its standard output.

        Raises:
            RuntimeError: its exit code was not 0.
        """
        done = self.try_run(tool, *arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            said = done.stdout + done.stderr
            raise RuntimeError(f"{tool} {arguments} ended {done.returncode}: {said}")
        return done.stdout


class KafkaBroker:
    """Apache Kafka, one node of both roles, with the methods of SiltstoneProcess."""

    def __init__(
        self, jars: KafkaJars, root: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.jars = jars
        self.root = root
        self.folder = root / "data"
        self.daemon = Daemon(root / "kafka.log")
        port, controller = free_ports(2)
        node = (settings or {}).get("node.id", "1")
        self.bootstrap = f"127.0.0.1:{port}"
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": f"{node}@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.folder),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **(settings or {}),
        }

    def start(self, timeout: float = 2 * PATIENCE) -> "KafkaBroker":
        """Format an empty folder, start, and return when it says that it serves."""
        properties = self.root / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        if not (self.folder / "meta.properties").exists():
            self._run_to_end(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)
            )
        self.daemon.launch(self.jars.command("broker", "kafka.Kafka", str(properties)))
        self.daemon.wait_for(READY, timeout)
        return self

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM; return 0 if that signal ended it, as Kafka's own script does."""
        code = self.daemon.terminate(timeout)
        self.jars.keep_archive("broker")
        return 0 if code == 128 + 15 else code

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is marked clean."""
        self.daemon.kill()

    def restart(self) -> "KafkaBroker":
        """Stop cleanly and start again on the same folder and port."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it if it still runs; by SIGTERM if the class archive must still be written."""
        if not self.daemon.running:
            return
        if any("ArchiveClassesAtExit" in word for word in self._arguments()):
            self.stop()
        else:
            self.kill()

    def _arguments(self) -> Sequence[str]:
        arguments = self.daemon.process.args if self.daemon.process else []
        return [str(word) for word in arguments] if isinstance(arguments, list) else []

    def _run_to_end(self, main: str, *arguments: str) -> None:
        done = run_to_end(self.jars.command("once", main, *arguments))
        if done.returncode:
            raise RuntimeError(f"{main} {arguments}: {done.stdout}{done.stderr}")


def group_rows(printed: str) -> list[dict[str, str]]:
    """Return the rows of what kafka-consumer-groups prints, by column."""
    lines = [line for line in printed.splitlines() if line.strip()]
    head = next(number for number, line in enumerate(lines) if line.startswith("GROUP"))
    names = lines[head].split()
    return [dict(zip(names, re.split(r"\s+", line), strict=False)) for line in lines[head + 1 :]]
