"""Compaction to watch: a git history becomes a topic, and the topic becomes the head.

    make demo                        python -m examples.demo [REPOSITORY]
    make demo REPO=~/code/project

Starts a broker on free ports with its data in a temporary folder, replays the history as a
changelog (`git_changelog.py`), asks why it is not compacted yet, lets it be compacted, shows what
the cleaner did, and proves that what is left equals `git ls-tree -r` of the head. Everything that
is shown with a $ can be typed. It takes some ten
seconds.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from examples import git_changelog

TOPIC = "history"
WAIT_SECONDS = 30.0
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.segment.bytes": "16384",
    "log.cleaner.min.cleanable.ratio": "1.0",
    "log.cleaner.delete.retention.ms": "100",
}
SILTSTONE = str(Path(sys.executable).with_name("siltstone"))
IS_COLOURED = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(code: str, text: str) -> str:
    """Return text in a colour where there are colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if IS_COLOURED else text


def say(sentence: str) -> None:
    """Print what comes next."""
    print(f"\n{paint('1;36', sentence)}")


class Broker:
    """A broker of this demonstration alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.output = folder / "siltstone.log"
        self.http = self.listener = "127.0.0.1:0"
        self._process: subprocess.Popen[bytes] | None = None

    def arguments(self) -> list[str]:
        """Return the settings as a command line takes them."""
        settings = {
            "listeners": f"PLAINTEXT://{self.listener}",
            "http.listener": self.http,
            "log.dirs": str(self.folder),
            **SETTINGS,
        }
        return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [SILTSTONE, "serve", *self.arguments()],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self._wait_for(r"\bready version")
        self.listener = self._wait_for(r"listening listener=PLAINTEXT address=(\S+)")
        self.http = self._wait_for(r"listening listener=http address=(\S+)")

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def run(self, *words: str) -> int:
        """Show a command and what it prints; return its exit code."""
        print(paint("2", f"$ siltstone {' '.join(words)}"))
        done = self._run(*words)
        text = done.stdout + done.stderr
        print(
            re.sub(
                r"^(\S+: )(.*)$", lambda m: m[1] + paint("1", m[2]), text, flags=re.MULTILINE
            ).rstrip()
        )
        return done.returncode

    def ask(self, *words: str) -> str:
        """Return what a command prints."""
        return self._run(*words).stdout

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [SILTSTONE, *words, *self.arguments()],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )

    def bytes_of(self, topic: str) -> int:
        """Return what the topic's segments take on the disk now."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{topic}-*/*.log"))

    def _wait_for(self, pattern: str) -> str:
        for _ in range(int(WAIT_SECONDS / 0.02)):
            found = re.search(pattern, self.output.read_text(errors="replace"))
            if found:
                return found[found.lastindex or 0]
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise SystemExit(f"the broker did not start:\n{self.output.read_text(errors='replace')}")


@contextmanager
def running() -> Iterator[Broker]:
    """Run a broker that leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="siltstone-demo-") as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def set_ratio(broker: Broker, ratio: str) -> None:
    """Set the topic's min.cleanable.dirty.ratio."""
    admin = KafkaAdminClient(bootstrap_servers=broker.listener)
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": ratio}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, settings)])
    admin.close()


def wait_for_a_pass(broker: Broker) -> None:
    """Wait until the history has a pass of the cleaner, which it has when the pass has ended."""
    print("waiting for the cleaner ", end="", flush=True)
    end = time.monotonic() + WAIT_SECONDS
    while not broker.ask("history", TOPIC, "--json") and time.monotonic() < end:
        print(".", end="", flush=True)
        time.sleep(0.1)
    print()


def show(repository: Path) -> int:
    """Play the whole piece."""
    options = argparse.Namespace(
        topic=TOPIC, repository=repository, revision="HEAD", compression="none"
    )
    with running() as broker:
        options.bootstrap_server = broker.listener
        say(f"A broker with its data in {broker.folder}. The history of {repository.name} goes in:")
        git_changelog.produce(options)
        before = broker.bytes_of(TOPIC)

        say("Every value is still in the log. Why is nothing compacted, and what would a pass do?")
        broker.run("explain", TOPIC, "--dry-run")

        say("So the ratio is in the way. Lowered, the cleaner comes by itself:")
        set_ratio(broker, "0.01")
        wait_for_a_pass(broker)
        broker.run("history", TOPIC)

        say("A deleted file is a tombstone, kept for delete.retention.ms (100 ms here). By hand:")
        broker.run("clean", TOPIC, "--wait")
        broker.run("explain", TOPIC)

        say("What is left is the head, neither more nor less:")
        after = broker.bytes_of(TOPIC)
        code = git_changelog.verify(options)
        broker.stop()
        say("And the folder at rest keeps the rules, by the cleaner's own receipts:")
        code = broker.run("verify", TOPIC) or code
    verdict = paint("1;32", "proven") if code == 0 else paint("1;31", "NOT PROVEN")
    print(f"\n{before:,} bytes became {after:,} ({100 * after / before:.0f} %): {verdict}")
    return code


def main() -> int:
    """Run the demonstration over a repository, by default the one around this file."""
    parser = argparse.ArgumentParser(description="Compaction of a git history, to watch.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("repository", type=Path, nargs="?", default=here)
    repository = parser.parse_args().repository.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the broker must not be left behind
    return show(repository)


if __name__ == "__main__":
    sys.exit(main())
