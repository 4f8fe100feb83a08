"""confluent-kafka-python: its consumer, producer and admin tests, of a release's archive.

The package on PyPI has no tests; they are in GitHub's archive of the tag. The pinned digest is that
of the uncompressed tar, since GitHub may change how it compresses archives. On a machine that
cannot reach GitHub, put the tar into the folder of this release in the cache.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tools.compat.python_suite import collect, make_environment, run_one
from tools.compat.suite import Outcome, cached, prepare, tool, unpack

VERSION = "2.15.0"
SOURCES = f"confluent-kafka-python-{VERSION}"
SHA256 = "5b8983daa29304512674d5f78f0acaa4254118860e6317725c2e0c6dd921ac25"
ARCHIVE = (
    f"https://github.com/confluentinc/confluent-kafka-python/archive/refs/tags/v{VERSION}.tar.gz"
)
PACKAGES = (
    f"confluent-kafka=={VERSION}",
    "pytest==9.2.0",
    "trivup==0.12.2",  # from here on only so that the fixtures can be imported
    "attrs==26.1.0",
    "authlib==1.9.9",
    "avro==1.12.2",
    "cachetools==8.0.1",
    "certifi==2026.10.18",
    "fastavro==1.13.1",
    "httpx==0.28.1",
    "requests==2.34.2",
)
FOLDER = "tests/integration/"
PARTS = ("admin", "consumer", "producer")
LEFT_OUT = ("admin/test_describe_operations.py",)  # starts a cluster with SASL
KIP_848 = "kip-848/"


class ConfluentKafkaPython:
    """The tests as they are, and those of its consumer once more in the protocol of KIP-848."""

    name: ClassVar[str] = "confluent-kafka-python"
    settings: ClassVar[Mapping[str, str] | None] = {
        "num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def __init__(self) -> None:
        self._sources = Path()
        self._python = Path()

    def build(self) -> None:
        """Install the client, unpack the tests of the same release."""
        folder = cached(SOURCES)
        self._sources = folder / SOURCES
        self._python = make_environment(folder, PACKAGES)
        if self._sources.exists():
            return
        tar = folder / f"{SOURCES}.tar"
        if not tar.exists():
            curl = tool("curl", "curl")
            packed = tar.with_suffix(".tar.gz")
            prepare([curl, "-fsSL", "-o", str(packed), ARCHIVE], cwd=folder)
            tar.write_bytes(gzip.decompress(packed.read_bytes()))
        unpack(tar, SHA256, folder / "unpacked")
        (folder / "unpacked" / SOURCES).rename(self._sources)

    def tests(self) -> list[str]:
        """Return the tests' names; ``kip-848/`` begins those that run in the consumer protocol."""
        paths = [FOLDER + part for part in PARTS]
        names = collect(self._python, *paths, cwd=self._sources, environ={})
        names = [name.removeprefix(FOLDER) for name in names]
        names = [name for name in names if not name.startswith(LEFT_OUT)]
        return names + [KIP_848 + name for name in names if name.startswith("consumer/")]

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run one test in the protocol that its name begins with."""
        environ = {"BROKERS": bootstrap}
        if test.startswith(KIP_848):
            environ["TEST_CONSUMER_GROUP_PROTOCOL"] = "consumer"
        name = FOLDER + test.removeprefix(KIP_848)
        return run_one(self._python, name, log, cwd=self._sources, environ=environ)
