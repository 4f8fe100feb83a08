"""Variables of Apache Kafka's container image: obeyed, named, or a reason not to start."""

from pathlib import Path

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.kafka_variables import setting_of
from siltstone.config.load import load

ID = "MkU3OEVBNTcwNTJENDM2Qk"
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"
SINGLE_NODE = {
    "CLUSTER_ID": ID,
    "KAFKA_NODE_ID": "5",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "5@broker:29093",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "KAFKA_HEAP_OPTS": "-Xmx1G",
}


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKA_CFG_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        (
            "KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.sasl_ssl.plain.sasl.jaas.config",
        ),
        ("KAFKA_A___B__C_D", "a-b_c.d"),
        ("KAFKA_CLUSTER_ID", "cluster.id"),
        ("KAFKA_KRAFT_CLUSTER_ID", "cluster.id"),
        ("CLUSTER_ID", "cluster.id"),
    ],
)
def test_the_rule_of_the_image(variable: str, name: str) -> None:
    """One underscore is a dot, two are one, three are a dash."""
    assert setting_of(variable) == name


def test_a_single_node_of_the_documentation_starts() -> None:
    """Each of its variables is obeyed, or named in a line."""
    layers = load(None, SINGLE_NODE, [])

    server = layers.server()
    assert server.node_id == 5
    assert server.cluster_id == ID
    assert [str(each) for each in server.bound_listeners] == [
        "PLAINTEXT_HOST://:9092",
        "PLAINTEXT://:19092",
    ]
    assert [str(each) for each in server.advertised] == [
        "PLAINTEXT_HOST://localhost:9092",
        "PLAINTEXT://broker:19092",
    ]
    assert server.group_initial_rebalance_delay_ms == 0
    assert layers.where("node.id") == "KAFKA_NODE_ID"
    named = "\n".join(layers.warnings)
    for variable in (
        "KAFKA_PROCESS_ROLES",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        "KAFKA_INTER_BROKER_LISTENER_NAME",
        "KAFKA_HEAP_OPTS",
    ):
        assert named.count(variable) == 1
    assert all("\n" not in line for line in layers.warnings)


def test_listeners_follow_from_the_advertised_ones() -> None:
    """As of the image, on every interface; over a file, but not over our own names."""
    told = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"}

    listeners = [
        str(each)
        for sets in ([], ["listeners=PLAINTEXT://127.0.0.1:7"])
        for each in load(None, told, sets).server().bound_listeners
    ]

    assert listeners == ["PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://127.0.0.1:7"]


IMAGE = Path(__file__).parents[2] / "docker" / "server.yaml"


@pytest.mark.parametrize("variable", ["KAFKA_LISTENERS", "SILTSTONE_LISTENERS"])
def test_what_the_image_advertises_gives_way(variable: str) -> None:
    """Its own listener is not among those that are set; a line says so."""
    layers = load(IMAGE, {variable: "INSIDE://127.0.0.1:19092"}, [MAP])

    assert [str(each) for each in layers.server().advertised] == ["INSIDE://127.0.0.1:19092"]
    (line,) = layers.warnings
    assert f"PLAINTEXT in advertised.listeners is left out: {variable} replaces" in line


def test_what_the_image_advertises_stays_for_its_own_listener() -> None:
    """Beside a new one it is bound as before, and so it is told as before."""
    both = "PLAINTEXT://0.0.0.0:9092,INSIDE://127.0.0.1:19092"

    layers = load(IMAGE, {"KAFKA_LISTENERS": both}, [MAP])

    assert [str(each) for each in layers.server().advertised] == [
        "PLAINTEXT://127.0.0.1:9092",
        "INSIDE://127.0.0.1:19092",
    ]
    assert layers.warnings == ()


def test_a_listener_without_a_host_is_told_by_this_machines_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other containers of such a compose file find the broker by it, and not by 127.0.0.1."""
    monkeypatch.setattr("siltstone.config.machine.public_name", lambda: "box.example")
    layers = load(
        IMAGE,
        {
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        },
        [],
    )

    (told,) = layers.server().advertised
    assert (told.host, told.port) == ("box.example", 9092)
    assert any("PLAINTEXT in advertised.listeners is left out" in each for each in layers.warnings)


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        ({"KAFKA_LOG_DIR": "/data"}, "log.dirs", "/data"),
        ({"KAFKA_LOG_RETENTION_HOURS": "2"}, "retention.ms", "7200000"),
        ({"KAFKA_LOG_RETENTION_HOURS": "2", "KAFKA_LOG_RETENTION_MS": "5"}, "retention.ms", "5"),
    ],
)
def test_a_variable_wins_over_a_file_by_any_name(
    tmp_path: Path, environ: dict[str, str], name: str, value: str
) -> None:
    """Kafka's order among the names of a setting counts within one source."""
    file = tmp_path / "server.yaml"
    file.write_text("log.dirs: /var/lib/siltstone\nlog.retention.ms: 1000\n")

    layers = load(file, environ, [])

    server = layers.server()
    found = {
        "log.dirs": ",".join(server.log_dirs),
        "retention.ms": str(server.topic_defaults.retention_ms),
    }
    assert found[name] == value


@pytest.mark.parametrize("name", ["VOTERS", "BOOTSTRAP_SERVERS"])
def test_a_quorum_of_several_nodes_stops_the_start(name: str) -> None:
    """By either name of Kafka's; one node is no cluster."""
    variable = f"KAFKA_CONTROLLER_QUORUM_{name}"

    assert load(None, {variable: "1@kafka:9093"}, []).server()
    with pytest.raises(ConfigError, match=f"{variable} names several nodes"):
        load(None, {variable: "1@kafka-1:9093,2@kafka-2:9093"}, [])


def test_advertised_listeners_beside_new_ones_are_obeyed_as_they_are() -> None:
    """Both are given again: a stranger among them is a fault, not left out."""
    environ = {
        "KAFKA_LISTENERS": "INSIDE://127.0.0.1:19092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:9092",
    }

    with pytest.raises(ConfigError, match="names PLAINTEXT, which is not in listeners"):
        load(IMAGE, environ, [MAP])


def test_a_file_that_contradicts_itself_is_a_fault_still(tmp_path: Path) -> None:
    """Only what it advertises for a listener of its own gives way."""
    file = tmp_path / "server.yaml"
    file.write_text("listeners: A://127.0.0.1:1\nadvertised.listeners: INSIDE://127.0.0.1:1\n")

    with pytest.raises(ConfigError, match="names INSIDE, which is not in listeners"):
        load(file, {}, ["listeners=PLAINTEXT://127.0.0.1:2", MAP])


def test_what_is_no_setting_is_named() -> None:
    """A typing error, what is for a JVM or another image, what Kubernetes sets."""
    layers = load(
        None,
        {
            "KAFKA_LOG_RETENTION_HOUR": "5",
            "KAFKA_OPTS": "-Dfoo=bar",
            "KAFKA_VERSION": "4.3.1",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
        },
        [],
    )

    assert sorted(layers.warnings) == [
        (
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR, KAFKA_ENABLE_KRAFT: for parts of "
            "another image, of no meaning here"
        ),
        (
            "KAFKA_LOG_RETENTION_HOUR: log.retention.hour is not a setting and is not obeyed; did "
            "you mean log.retention.hours?"
        ),
        "KAFKA_OPTS, KAFKA_VERSION: for a JVM and its logs, of no meaning here",
        "KAFKA_PORT_9092_TCP, KAFKA_SERVICE_HOST: set for links between containers, not settings",
    ]
    assert layers.static == {}


@pytest.mark.parametrize(
    ("environ", "fault"),
    [
        (
            {"KAFKA_OPTS": "-Djava.security.auth.login.config=/secret/jaas"},
            "KAFKA_OPTS promises protection, but neither a JVM",
        ),
        (
            {"KAFKA_SSL_KEYSTORE_FILENAME": "secret.jks"},
            "KAFKA_SSL_KEYSTORE_FILENAME promises protection",
        ),
        ({"KAFKA_CLIENT_PASSWORDS": "secret"}, "KAFKA_CLIENT_PASSWORDS promises protection"),
        (
            {"KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.other.Authorizer"},
            "KAFKA_AUTHORIZER_CLASS_NAME: authorizer.class.name is org.apache.other.Authorizer",
        ),
        (
            {"KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG": 'x required password="secret";'},
            "KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG: ",
        ),
        (
            {"KAFKA_PROCESS_ROLES": "controller"},
            "KAFKA_PROCESS_ROLES is controller: that is a controller without a broker",
        ),
        (
            {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9,2@b:9,3@c:9"},
            "KAFKA_CONTROLLER_QUORUM_VOTERS names several nodes",
        ),
        (
            {"KAFKA_NODE_ID": "1", "KAFKA_CFG_NODE_ID": "2"},
            "KAFKA_CFG_NODE_ID and KAFKA_NODE_ID give node.id different values",
        ),
        (
            {"KAFKA_NODE_ID": "1", "SILTSTONE_NODE_ID": "2"},
            "KAFKA_NODE_ID and SILTSTONE_NODE_ID give node.id different values",
        ),
        ({"KAFKA_NODE_ID": "1", "KAFKA_BROKER_ID": "2"}, "is not what node.id says"),
        ({"KAFKA_NUM_PARTITIONS": "many"}, "KAFKA_NUM_PARTITIONS: num.partitions is many"),
        ({"CLUSTER_ID": "short", "KAFKA_NODE_ID": "1"}, "CLUSTER_ID: cluster.id is short"),
    ],
)
def test_what_cannot_be_obeyed_stops_the_start(environ: dict[str, str], fault: str) -> None:
    """Variables that users rely on, and such that contradict themselves; no secret is quoted."""
    with pytest.raises(ConfigError) as caught:
        load(None, environ, [])

    assert fault in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_command_line_overrules() -> None:
    """That is its purpose, so it contradicts nothing."""
    layers = load(None, {"KAFKA_NODE_ID": "1"}, ["node.id=2"])

    assert layers.server().node_id == 2


def test_a_cluster_id_of_somebody_else_is_left_alone() -> None:
    """The short name is used for other things where there is no Kafka about."""
    assert load(None, {"CLUSTER_ID": "prod"}, []).static == {}
    assert load(None, {"CLUSTER_ID": ID}, []).server().cluster_id == ID


def test_an_empty_variable_promises_nothing() -> None:
    """As a compose file has it where somebody left a value out."""
    load(None, {"KAFKA_CLIENT_PASSWORDS": "", "KAFKA_PROCESS_ROLES": ""}, [])
