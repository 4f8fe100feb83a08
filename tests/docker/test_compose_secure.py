"""The compose file that starts secured, held against what the image and the settings are.

Not tried here: an engine that runs it. Its script and its settings are run without one, in
tests/clients/test_secured_start.py.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from siltstone.config.load import load
from siltstone.config.security import STANDARD_AUTHORIZER

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
SETTINGS = ROOT / "config" / "server-secure.yaml"
DATA = "/var/lib/siltstone"
SERVICES = ("secrets", "siltstone")


def read_service(name: str) -> Any:
    """Return a service of docker/compose-secure.yaml."""
    text = (DOCKER / "compose-secure.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["services"][name]


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_confined(name: str) -> None:
    """Nobody's user, which the image's data folder belongs to; a read-only root; no capability."""
    service = read_service(name)

    assert f"USER {service['user']}" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert service["user"].split(":")[0] != "0"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "devices"} & set(service)


@pytest.mark.parametrize("name", SERVICES)
def test_files_are_mounted_where_the_image_looks(name: str) -> None:
    """An engine makes a folder of a file that it does not find; secrets are in the one volume."""
    service = read_service(name)
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    mounts = [each.split(":") for each in service["volumes"]]

    files = {target: source for source, target, *_ in mounts if source.startswith(".")}
    assert all((DOCKER / source).is_file() for source in files.values())
    assert all(mode == ["ro"] for source, _, *mode in mounts if source.startswith("."))
    [settings] = [target for target, source in files.items() if source.endswith(SETTINGS.name)]
    assert f":{settings}\n" in image.partition("SILTSTONE_CONFIG=")[2]
    assert [target for source, target, *_ in mounts if source == "data"] == [DATA]
    assert service["working_dir"] == DATA
    assert f"VOLUME {DATA}" in image


def test_the_broker_waits_for_its_secrets() -> None:
    """They are made once, by the mounted script, without a network."""
    secrets = read_service("secrets")

    assert read_service("siltstone")["depends_on"] == {
        "secrets": {"condition": "service_completed_successfully"}
    }
    shell, script, settings, host = secrets["command"]
    targets = [each.split(":")[1] for each in secrets["volumes"]]
    assert shell == "sh"
    assert {script, settings} < set(targets)
    assert host == "${SILTSTONE_HOST:-localhost}"
    assert secrets["network_mode"] == "none"
    assert "ports" not in secrets


def test_clients_are_told_the_name_that_is_in_the_certificate() -> None:
    """One variable, with one default, is both; the page is published on loopback."""
    service = read_service("siltstone")
    environ = {
        name: re.sub(r"\$\{SILTSTONE_HOST:-localhost\}", "broker.example", value)
        for name, value in service["environment"].items()
    }
    layers = load(SETTINGS, environ, [])
    server = layers.server()

    assert not layers.warnings
    [told] = server.advertised
    assert (told.host, told.port) == ("broker.example", 9093)
    assert service["ports"] == ["9093:9093", "127.0.0.1:9464:9464"]


def test_the_settings_are_secured() -> None:
    """Encryption, logins and rights on every port, and a record of what each user did."""
    layers = load(SETTINGS, {}, [])
    server = layers.server()
    given = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))

    assert not layers.warnings
    assert {each.protocol for each in server.bound_listeners} == {"SASL_SSL"}
    assert given["http.security.protocol"] == "SASL_SSL"
    assert given["authorizer.class.name"] == STANDARD_AUTHORIZER
    assert given["super.users"] == "User:admin"
    assert not [each for each in given["sasl.enabled.mechanisms"] if not each.startswith("SCRAM")]
    assert given["audit.log.file"]
