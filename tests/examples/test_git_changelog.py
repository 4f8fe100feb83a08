"""The example of the README, on a repository made here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import CODECS
from tests.support.clients.confluent import Confluent
from tests.support.folders import codecs
from tests.support.kafka import KafkaBroker
from tests.support.programs import run_to_end

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker
SCRIPT = Path(__file__).parents[2] / "examples" / "git_changelog.py"
AUTHOR = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip


class Repository:
    """A git repository in a folder; every commit is a day after the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.day = 0
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Run git in it and return what it prints."""
        stamp = f"{1_500_000_000 + 86_400 * self.day} +0000"
        dates = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
        done = run_to_end(
            ["git", *arguments], cwd=self.folder, env={**os.environ, **AUTHOR, **dates}, check=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        """Write a file, with the folders it needs."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> None:
        """Commit everything, a day later."""
        self.day += 1
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", f"day {self.day}")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Additions, changes, deletions, a rename, a mode, a link, odd names, a merge, a return."""
    made = Repository(tmp_path_factory.mktemp("git") / "repository")
    for number in range(40):
        made.write(f"folder {number % 4}/file-{number}", f"text {number}\n" * number)
    made.commit()
    made.write("ünïcode\tand tab", "odd\n")
    made.write("folder 0/file-0", "changed\n")
    (made.folder / "folder 1/file-1").unlink()
    made.commit()
    made.git("checkout", "--quiet", "-b", "side")
    made.write("side", "from the side\n")
    (made.folder / "folder 2/file-2").unlink()
    made.commit()
    made.git("checkout", "--quiet", "main")
    made.git("mv", "folder 3/file-3", "renamed")
    (made.folder / "folder 0/file-4").chmod(0o755)
    (made.folder / "link").symlink_to("renamed")
    made.commit()
    made.day += 1
    made.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    made.write("folder 1/file-1", "back again\n")
    made.commit()
    for number in range(200):
        made.write("often", f"{number}\n")
        if number % 20 == 0:
            made.commit()
    made.commit()
    return made


def run(
    command: str, broker: Broker, repository: Repository, topic: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    """Run the example as a person would."""
    return run_to_end(
        [
            sys.executable,
            str(SCRIPT),
            command,
            str(repository.folder),
            "--bootstrap-server",
            broker.bootstrap,
            "--topic",
            topic,
            *options,
        ],
        timeout=50,
    )


@pytest.mark.parametrize(
    "codec",
    [pytest.param(each, marks=pytest.mark.slow if each != "zstd" else ()) for each in CODECS],
)
def test_topic_alone_proves_the_head(broker: Broker, repository: Repository, codec: str) -> None:
    """The last value of every path equals `git ls-tree -r` of the head, with each codec."""
    topic = f"changelog-{codec}"

    written = run("produce", broker, repository, topic, "--compression", codec)
    proven = run("verify", broker, repository, topic)

    files = len(repository.git("ls-tree", "-r", "HEAD").splitlines())
    head = repository.git("rev-parse", "HEAD")
    assert written.returncode == 0, written.stderr
    assert proven.stderr == ""
    assert f"give the {files} files of {head}" in proven.stdout
    assert codec in codecs(broker.folder / f"{topic}-0")


def test_a_missing_change_is_found(broker: Broker, repository: Repository) -> None:
    """Against a head that the topic does not hold, the proof fails and names the paths."""
    topic = "changelog-older"
    run("produce", broker, repository, topic, "--revision", "HEAD~3")

    proven = run("verify", broker, repository, topic)

    assert proven.returncode == 1
    assert "often: the topic says" in proven.stderr
    assert "renamed" not in proven.stderr


def test_commits_give_the_records_their_times(broker: Broker, repository: Repository) -> None:
    """A record carries its commit's time and id, so the topic can be read from a date."""
    topic = "changelog-times"
    run("produce", broker, repository, topic)
    third_day = (1_500_000_000 + 86_400 * 2) * 1000

    (found,) = Confluent(broker.bootstrap).read_from_time(topic, third_day, 1)

    assert found.offset == 40
    assert found.message.timestamp == third_day
    commits = repository.git("rev-list", "--first-parent", "--reverse", "HEAD").splitlines()
    assert found.message.headers == (("commit", commits[1].encode()),)


def test_a_topic_that_exists_is_not_written_to(broker: Broker, repository: Repository) -> None:
    """A second history on one topic would mix them: refused in a sentence."""
    topic = "changelog-twice"
    run("produce", broker, repository, topic)
    end = Confluent(broker.bootstrap).bounds(topic)

    second = run("produce", broker, repository, topic)

    assert second.returncode == 1
    assert second.stderr == f"git_changelog: topic {topic} exists; name another with --topic\n"
    assert Confluent(broker.bootstrap).bounds(topic) == end
