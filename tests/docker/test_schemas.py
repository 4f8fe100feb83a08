"""Dashboards and the pod as their own makers' schemas have them.

The packages are large, and nothing else needs them: `make schemas` puts them beside the tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import run_to_end

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SILTSTONE_CACHE", ROOT / ".cache"), "schemas")
KUBERNETES = ("1.29", "1.33")
# Reads each dashboard into Grafana's classes, writes it again, and prints what became different.
ROUND_TRIP = """
import json, sys
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

def differences(path, given, kept):
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name in kept:
                yield from differences(f"{path}.{name}", value, kept[name])
            else:
                yield f"{path}.{name} is unknown"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, pair in enumerate(zip(given, kept)):
            yield from differences(f"{path}[{number}]", *pair)
    elif given != kept:
        yield f"{path} is {given!r}, and becomes {kept!r}"

plugins.register_default_plugins()
given = json.load(sys.stdin)
kept = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))
print("\\n".join(differences("", given, kept)), end="")
"""


def run(*arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run Python with the packages, or skip the test for lack of them."""
    if not (FOLDER / "kubernetes_validate").is_dir():
        pytest.skip(f"schemas: not in {FOLDER}")
    environ = {**os.environ, "PYTHONPATH": str(FOLDER)}
    return run_to_end([sys.executable, *arguments], input=given, env=environ)


def round_trip(dashboard: str) -> str:
    """Return what Grafana's classes do not keep of a dashboard."""
    done = run("-c", ROUND_TRIP, given=dashboard)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["siltstone-broker", "siltstone-cleaner"])
def test_grafana_keeps_every_field(name: str) -> None:
    """Each has the name and the place that Grafana's schema gives it."""
    path = ROOT / "docker" / "grafana" / "dashboards" / f"{name}.json"

    assert round_trip(path.read_text(encoding="utf-8")) == ""


def test_a_field_that_grafana_does_not_know_is_seen() -> None:
    """The test before can fail: in the document, in a panel, and in a panel's options."""
    path = ROOT / "docker" / "grafana" / "dashboards" / "siltstone-broker.json"
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    dashboard["titel"] = "Broker"
    dashboard["panels"][1]["colour"] = "red"
    dashboard["panels"][1]["options"]["colourMode"] = "value"

    assert round_trip(json.dumps(dashboard)).splitlines() == [
        ".panels[1].options.colourMode is unknown",
        ".panels[1].colour is unknown",
        ".titel is unknown",
    ]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_pod(version: str) -> None:
    """Strictly: no field that the schema does not name."""
    path = str(ROOT / "docker" / "kubernetes.yaml")

    done = run("-m", "kubernetes_validate", "--strict", "-k", version, path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_field_that_kubernetes_does_not_know_is_seen(tmp_path: Path) -> None:
    """The test before can fail."""
    text = (ROOT / "docker" / "kubernetes.yaml").read_text(encoding="utf-8")
    path = tmp_path / "pod.yaml"
    path.write_text(text.replace("readOnlyRootFilesystem", "readOnlyRoot"), encoding="utf-8")

    done = run("-m", "kubernetes_validate", "--strict", "-k", KUBERNETES[0], str(path))

    assert done.returncode != 0
    assert "readOnlyRoot" in done.stdout + done.stderr
