"""An S3 server, moto, and Iceberg's own REST catalogue over it, as processes beside the tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pyspark
import pytest

from tests.support.daemon import Daemon
from tests.support.kafka import FAST, ROOT, cache_folder, copy_jars
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

BUCKET = "lake"
ACCESS = {"s3.access-key-id": "somebody", "s3.secret-access-key": "a secret"}
_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def serving_s3() -> Iterator[str]:
    """Yield the address of an S3 server with a bucket, or skip the test."""
    folder = cache_folder() / "s3-server"
    if not (folder / "moto").is_dir():
        pytest.skip("moto: not unpacked; make s3-server does it")
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", _MOTO]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with urlopen(Request(f"{address}/{BUCKET}", method="PUT")):
            pass
        yield address
        server.stdin.close()


@contextmanager
def serving_catalogue(endpoint: str, root: Path) -> Iterator[str]:
    """Yield the address of a REST catalogue that keeps its tables in an S3 server, or skip.

    It alone has keys of the store, and hands them to clients with each table.
    """
    java = shutil.which("java")
    if java is None:
        pytest.skip("java: no JDK on the PATH")
    try:
        copy_jars(ROOT / "tests" / "catalogue", "catalogue-jars")
    except LookupError as lack:
        pytest.skip(str(lack))
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    settings = {
        "warehouse": f"s3://{BUCKET}/catalogue",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": endpoint,
        "s3.path-style-access": "true",
        "include-credentials": "true",
        "rest.port": str(port),
        **ACCESS,
    }
    environ = {**os.environ, **_variables("CATALOG_", settings)}
    environ["AWS_REGION"] = "us-east-1"
    path = os.pathsep.join([f"{cache_folder()}/catalogue-jars/*", *map(str, hadoop)])
    server = Daemon(root / "catalogue.log")
    main = "org.apache.iceberg.rest.RESTCatalogServer"
    server.launch([java, *FAST, "-cp", path, main], environ=environ)
    try:
        wait_until(lambda: _answers(f"{address}/v1/config"), "the catalogue answers")
        yield address
    finally:
        server.kill()


def catalogue_variables(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a catalogue as variables that pyiceberg reads."""
    return _variables(f"PYICEBERG_CATALOG__{name.upper()}__", settings, point="__")


def _variables(prefix: str, settings: Mapping[str, str], point: str = "_") -> dict[str, str]:
    dash = "_" if point == "__" else "__"
    return {
        prefix + name.upper().replace(".", point).replace("-", dash): value
        for name, value in settings.items()
    }


def _answers(address: str) -> bool:
    try:
        with urlopen(address):
            return True
    except URLError:
        return False
