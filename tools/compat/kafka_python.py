"""kafka-python: its integration tests, of the source archive that its release has on PyPI.

The suite starts no broker of its own if ``KAFKA_URI`` names one. The archive lacks two modules of
the tests' package; this module writes the needed parts of them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tools.compat.python_suite import collect, make_environment, run_one
from tools.compat.suite import Outcome, cached, prepare, unpack

VERSION = "3.0.12"
ARCHIVE = f"kafka_python-{VERSION}.tar.gz"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
PACKAGES = (
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "py==1.11.0",
    "crc32c==2.9.post0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
)
FOLDER = "test/integration/"
LEFT_OUT = ("test_sasl_integration.py", "test_ssl_integration.py")  # start brokers of their own
SERVICE = '''\
"""Stands for the module that starts Kafka's processes: here a broker runs already."""


class SpawnedService:
    """A process that the fixtures would start; none is."""


class ExternalService:
    """The broker that KAFKA_URI names."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        """Leave it running."""
'''


class KafkaPython:
    """The tests of its consumer, producer and admin client."""

    name: ClassVar[str] = "kafka-python"
    # The settings of the suite's own broker on which tests depend.
    settings: ClassVar[Mapping[str, str] | None] = {
        "node.id": "0",
        "num.partitions": "4",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def __init__(self) -> None:
        self._sources = Path()
        self._python = Path()

    def build(self) -> None:
        """Install the client from the archive whose tests are run."""
        folder = cached(f"kafka-python-{VERSION}")
        self._sources = folder / f"kafka_python-{VERSION}"
        self._python = make_environment(folder, PACKAGES)
        service = self._sources / "test" / "service.py"
        if service.exists():
            return
        pip = [str(self._python), "-m", "pip"]
        only_source = ("--no-deps", "--no-binary", ":all:")
        prepare([*pip, "download", *only_source, f"kafka-python=={VERSION}"], cwd=folder)
        unpack(folder / ARCHIVE, SHA256, folder)
        prepare([*pip, "install", str(self._sources)], cwd=folder)
        service.with_name("__init__.py").touch()
        service.write_text(SERVICE)

    def tests(self) -> list[str]:
        """Return all but those of TLS and SASL."""
        names = collect(self._python, FOLDER, cwd=self._sources, environ=self._environ(""))
        names = [name.removeprefix(FOLDER) for name in names]
        return [name for name in names if not name.startswith(LEFT_OUT)]

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run one test with each of its parameters under a name of its own."""
        environ = self._environ(bootstrap)
        return run_one(self._python, FOLDER + test, log, cwd=self._sources, environ=environ)

    def _environ(self, bootstrap: str) -> Mapping[str, str]:
        return {
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": "4.3",  # then the client does not ask the broker
            "KAFKA_ROOT": str(self._sources),  # must exist, but nothing is started from it
        }
