"""A Prometheus that scrapes a broker, for tests that query it.

It is the Debian package, from the PATH or where `make prometheus` has unpacked it.
"""

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.ports import free_ports
from tests.support.programs import run_to_end
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
UNPACKED = Path(os.environ.get("SILTSTONE_CACHE", ROOT / ".cache"), "prometheus", "usr", "bin")
SECONDS = 1


def find_program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`, or skip the test for lack of it."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"{name}: not on the PATH, nor in {UNPACKED}")
    return found


def promtool(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run promtool."""
    command = [find_program("promtool"), *map(str, arguments)]
    return run_to_end(command, cwd=ROOT)


class Prometheus:
    """One server with its data in a folder of the test."""

    def __init__(self, address: str, daemon: Daemon) -> None:
        self._address = address
        self._daemon = daemon

    def query(self, expression: str) -> list[Any]:
        """Return the series that an expression gives now."""
        result: list[Any] = self._ask("query", {"query": expression})["result"]
        return result

    def value(self, expression: str) -> float:
        """Return the value of an expression that gives one series."""
        [series] = self.query(expression)
        return float(series["value"][1])

    def alerts(self) -> set[str]:
        """Return the names of the alerts that fire or are about to."""
        return {each["labels"]["alertname"] for each in self._ask("alerts", {})["alerts"]}

    def rules(self) -> dict[str, str]:
        """Return how each rule's last evaluation went, by name."""
        groups = self._ask("rules", {})["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def is_ready(self) -> bool:
        """Tell whether it serves."""
        assert self._daemon.running, self._daemon.printed()
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask(self, what: str, parameters: Mapping[str, str]) -> Any:
        query = urllib.parse.urlencode(parameters)
        url = f"http://{self._address}/api/v1/{what}?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]


@contextmanager
def scraping(folder: Path, target: str, labels: Mapping[str, str]) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes a target each second and evaluates docker/alerts.yml."""
    program = find_program("prometheus")
    folder.mkdir()
    config = {
        "global": {"scrape_interval": f"{SECONDS}s", "evaluation_interval": f"{SECONDS}s"},
        "rule_files": [str(ROOT / "docker" / "alerts.yml")],
        "scrape_configs": [
            {
                "job_name": "kafka-broker",
                "static_configs": [{"targets": [target], "labels": dict(labels)}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    daemon = Daemon(folder / "prometheus.log")
    daemon.launch(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ]
    )
    server = Prometheus(address, daemon)
    try:
        wait_until(server.is_ready, "Prometheus to be ready")
        yield server
    finally:
        daemon.terminate()
