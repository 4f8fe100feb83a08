"""The files that run the broker elsewhere: compose, Kubernetes, systemd.

Not tried here: an engine, a cluster or systemd that runs them. Their rules are held against what
the schemas of compose and of Kubernetes ask for, their settings against our own reader.
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

from siltstone.config.load import load
from tests.support.missing import require
from tests.support.programs import run_to_end

DOCKER = Path(__file__).parents[2] / "docker"
OURS = "siltstone"
USER = 65534
HTTP = 9464
KAFKA = 9092


def read_compose() -> Any:
    """Return docker/compose.yaml."""
    return yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))


def read_kubernetes() -> dict[str, list[Any]]:
    """Return the objects of docker/kubernetes.yaml by kind."""
    kinds: dict[str, list[Any]] = {}
    for each in yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text(encoding="utf-8")):
        kinds.setdefault(each["kind"], []).append(each)
    return kinds


def pod() -> Any:
    """Return the pod of the stateful set."""
    [found] = read_kubernetes()["StatefulSet"]
    return found["spec"]["template"]["spec"]


def container() -> Any:
    """Return the broker's container."""
    [found] = pod()["containers"]
    return found


def test_images_of_others_are_pinned() -> None:
    """A tag with a full version; what is latest changes without a word."""
    images = [each["image"] for each in read_compose()["services"].values() if "image" in each]

    assert len(images) == 2
    for image in images:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?", image)


def test_ports_are_this_machines_alone_and_different() -> None:
    """A service without a password is published on loopback."""
    ports = [port for each in read_compose()["services"].values() for port in each["ports"]]

    assert {port.split(":")[0] for port in ports} == {"127.0.0.1"}
    assert len({port.split(":")[1] for port in ports}) == len(ports) == 4


def test_mounted_files_and_volumes_are_there() -> None:
    """An engine makes a folder of a file that it does not find."""
    compose = read_compose()

    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            there = (DOCKER / source).exists() if source[0] == "." else source in compose["volumes"]
            assert there, volume


def test_services_depend_on_services() -> None:
    """Each is one of the file, and the broker is waited for until it is healthy."""
    services = read_compose()["services"]

    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    assert services["prometheus"]["depends_on"][OURS] == {"condition": "service_healthy"}


def test_grafana_finds_its_files_and_prometheus() -> None:
    """The paths of the provisioning are mounted, the address is that of the service."""
    compose = read_compose()
    mounts = dict(each.split(":")[:2] for each in compose["services"]["grafana"]["volumes"])
    provisioning = DOCKER / "grafana" / "provisioning"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "siltstone.yml").read_text())[
        "providers"
    ]
    [source] = yaml.safe_load((provisioning / "datasources" / "siltstone.yml").read_text())[
        "datasources"
    ]

    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]


def test_prometheus_finds_its_rules() -> None:
    """Its files are mounted side by side, since one names the other."""
    volumes = read_compose()["services"]["prometheus"]["volumes"]
    config = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))

    assert config["rule_files"] == ["alerts.yml"]
    assert "./alerts.yml:/etc/prometheus/alerts.yml:ro" in volumes
    assert "./prometheus.yml:/etc/prometheus/prometheus.yml:ro" in volumes


def test_the_settings_of_the_pod_are_settings() -> None:
    """Our own reader takes them over those of the image, and advertises the service's name."""
    environ = {
        each["name"]: each["value"].replace("$(POD_NAMESPACE)", "prod")
        for each in container()["env"]
        if "value" in each
    }
    layers = load(DOCKER / "server.yaml", environ, [])
    [service, _] = read_kubernetes()["Service"]

    assert not layers.warnings
    [told] = layers.server().advertised
    assert (told.host, told.port) == (f"{service['metadata']['name']}.prod.svc", KAFKA)


def test_the_pod_is_confined() -> None:
    """Nobody's uid, a root that is read-only, no capability, no token of the cluster."""
    confined = container()["securityContext"]

    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] == pod()["securityContext"]["fsGroup"] == USER
    assert pod()["automountServiceAccountToken"] is False
    assert confined["readOnlyRootFilesystem"] is True
    assert confined["allowPrivilegeEscalation"] is False
    assert confined["capabilities"] == {"drop": ["ALL"]}


def test_the_pod_is_asked_at_pages_that_are_there() -> None:
    """Alive and ready are two questions; a kubelet names the port, a service the selector."""
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    asked = {
        kind: container()[f"{kind}Probe"]["httpGet"]
        for kind in ("startup", "liveness", "readiness")
    }
    labels = read_kubernetes()["StatefulSet"][0]["spec"]["template"]["metadata"]["labels"]

    assert ports == {"kafka": KAFKA, "http": HTTP}
    assert {kind: each["path"] for kind, each in asked.items()} == {
        "startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"
    }  # fmt: skip
    assert {each["port"] for each in asked.values()} == {"http"}
    for service in read_kubernetes()["Service"]:
        assert service["spec"]["selector"].items() <= labels.items()
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= set(ports)


def test_the_volume_is_where_the_image_writes() -> None:
    """One replica, one claim, mounted at the image's log.dirs; the stop has its time."""
    [found] = read_kubernetes()["StatefulSet"]
    [claim] = found["spec"]["volumeClaimTemplates"]
    [mount] = container()["volumeMounts"]
    server = load(DOCKER / "server.yaml", {}, []).server()

    assert found["spec"]["replicas"] == 1
    assert mount["name"] == claim["metadata"]["name"]
    assert (mount["mountPath"],) == server.log_dirs
    assert pod()["terminationGracePeriodSeconds"] * 1000 > server.graceful_shutdown_timeout_ms
    assert found["spec"]["serviceName"] in {
        each["metadata"]["name"] for each in read_kubernetes()["Service"]
    }


def test_the_unit_is_one(tmp_path: Path) -> None:
    """systemd-analyze takes it; the program is one that is here."""
    program = require("systemd-analyze")
    text = (DOCKER / "siltstone.service").read_text(encoding="utf-8")
    path = tmp_path / "siltstone.service"
    path.write_text(text.replace("/opt/siltstone/bin/siltstone", sys.executable), encoding="utf-8")

    done = run_to_end([program, "verify", str(path)])

    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_has_our_settings_and_times() -> None:
    """Its variables are settings, and it waits for a stop as long as one may take."""
    text = (DOCKER / "siltstone.service").read_text(encoding="utf-8")
    found = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
    name, value = found["Environment"].split("=", 1)
    server = load(None, {name: value}, []).server()

    assert found["Type"] == "notify"
    assert server.log_dirs == (value,) == (f"/var/lib/{found['StateDirectory']}",)
    assert int(found["TimeoutStopSec"]) * 1000 > server.graceful_shutdown_timeout_ms
