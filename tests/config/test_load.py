"""Loading: precedence, and every fault at once with its place."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.load import load
from tests.support.programs import run_to_end


def faults_of(
    path: Path | None = None, environ: Mapping[str, str] | None = None, sets: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the faults of loading these, with the folder of the file left out."""
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {}, sets)
    folder = "" if path is None else f"{path.parent}/"
    return tuple(fault.replace(folder, "") if folder else fault for fault in caught.value.faults)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a server.yaml that the test writes."""
    return tmp_path / "server.yaml"


def test_nothing_at_all_works() -> None:
    """Without file, environment and command line the defaults hold, without a warning."""
    layers = load(None, {"HOME": "/root"}, [])

    assert layers.server().log_dirs == ("siltstone-data",)
    assert layers.server().node_id == 1
    assert layers.topic().retention_ms == 604_800_000
    assert layers.warnings == ()


def test_command_line_over_environment_over_file(file: Path) -> None:
    """--set wins over the environment, which wins over the file; the last --set wins."""
    file.write_text("num.partitions: 2\nlog.segment.bytes: 2000000\nfetch.max.bytes: 2048\n")
    environ = {"SILTSTONE_NUM_PARTITIONS": "3", "SILTSTONE_LOG_SEGMENT_BYTES": "3000000"}

    layers = load(file, environ, ["num.partitions=4", "num.partitions=5"])

    assert layers.server().num_partitions == 5
    assert layers.topic().segment_bytes == 3_000_000
    assert layers.server().fetch_max_bytes == 2048
    assert layers.where("num.partitions") == "--set"
    assert layers.where("log.segment.bytes") == "SILTSTONE_LOG_SEGMENT_BYTES"
    assert layers.where("fetch.max.bytes") == f"{file} line 3"
    assert layers.where("node.id") == "default"


def test_yaml_values_may_be_native(file: Path) -> None:
    """Numbers, booleans and lists need no quotes; what was written is what is parsed."""
    file.write_text(
        "num.partitions: 4\n"
        "auto.create.topics.enable: False\n"
        "log.cleanup.policy: [compact, delete]\n"
        "log.dirs:\n  - /a\n  - /b\n"
        "broker.rack: '007'\n"
        "listeners: PLAINTEXT://127.0.0.1:0\n"
    )

    server = load(file, {}, []).server()

    assert server.num_partitions == 4
    assert not server.auto_create_topics_enable
    assert server.topic_defaults.cleanup_policy == ("compact", "delete")
    assert server.log_dirs == ("/a", "/b")
    assert server.broker_rack == "007"
    assert server.listeners == ("PLAINTEXT://127.0.0.1:0",)


def test_every_fault_is_reported_with_its_place(file: Path) -> None:
    """One run names all that is wrong in file, environment and command line."""
    file.write_text(
        "log.segment.byte: 5\n"
        "num.partitions: many\n"
        "fetch.max.bytes: 2048\n"
        "fetch.max.bytes: 4096\n"
        "log:\n  dirs: /data\n"
        "retention.ms: 5\n"
        "log.roll.hours:\n"
        "log.dirs: [[a]]\n"
        "listeners: PLAINTEXT://0.0.0.0:9092\n"
    )

    faults = faults_of(file, {"SILTSTONE_LOG_SEGMENT_BITES": "1"}, ["nothing", "node.id=-1"])

    assert set(faults) == {
        "server.yaml line 1: log.segment.byte is not a setting; did you mean log.segment.bytes?",
        (
            "server.yaml line 2: num.partitions is many; it must be a whole number from "
            "-2147483648 to 2147483647"
        ),
        "server.yaml line 4: fetch.max.bytes is already on line 3; remove one of them",
        "server.yaml line 5: log holds settings of its own; write each with its whole dotted name",
        (
            "server.yaml line 7: retention.ms is not a setting; for all topics it is called "
            "log.retention.ms"
        ),
        (
            "server.yaml line 8: log.roll.hours has no value; give it one, or remove the line "
            "to keep the default"
        ),
        "server.yaml line 9: log.dirs is a list of lists; write a list of words",
        (
            "server.yaml line 10: listeners would tell clients to connect to "
            "PLAINTEXT://0.0.0.0:9092, an address that no client can reach; set "
            "advertised.listeners=PLAINTEXT://HOST:PORT as clients see this machine"
        ),
        "SILTSTONE_LOG_SEGMENT_BITES is not a setting; did you mean SILTSTONE_LOG_SEGMENT_BYTES?",
        "--set nothing: write --set NAME=VALUE",
        "--set: node.id is -1; it must be at least 0",
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [1\nb: ]2\n", "server.yaml line 2: this is not YAML: "),
        ("a: 'open\n", "server.yaml line 2: this is not YAML: "),
        ("- a\n- b\n", "server.yaml line 1: write settings as NAME: VALUE, one on a line"),
        (
            "num.partitions=4\n",
            "server.yaml line 1: write settings as NAME: VALUE, one on a line, or have a file",
        ),
        ("a: 1\n---\nb: 2\n", "server.yaml line 2: this is not YAML: "),
        ("? [a, b]\n: 1\n", "server.yaml line 1: a name is one word like log.segment.bytes"),
        ("a: \x00\n", "server.yaml: this is not YAML: "),
    ],
)
def test_files_that_are_no_settings(file: Path, text: str, fault: str) -> None:
    """A file that is not a flat YAML mapping is named with its line."""
    file.write_text(text)

    assert faults_of(file)[0].startswith(fault)


def test_bytes_that_are_no_text(file: Path) -> None:
    """A file that is not UTF-8 is a fault and not a traceback."""
    file.write_bytes(b"broker.rack: \xff\xfe\n")

    assert faults_of(file)[0].startswith("server.yaml: this is not YAML: ")


def test_an_empty_file_is_fine(file: Path) -> None:
    """A file of comments sets nothing."""
    file.write_text("# nothing\n")

    assert load(file, {}, []).static == {}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder are faults that name the file."""
    missing = faults_of(tmp_path / "server.yaml")
    folder = faults_of(tmp_path)

    assert missing == (
        "server.yaml cannot be read: No such file or directory; name another file by --config",
    )
    assert "cannot be read: Is a directory" in folder[0]


def test_settings_of_kafka_without_meaning_are_kept() -> None:
    """A setting of any release of Kafka is kept with one warning each and checked for its type."""
    sets = ["num.replica.fetchers=3", "zookeeper.connect=zk:2181", "rsm.config.key=secret"]

    layers = load(None, {}, [*sets, "listener.name.lan.background.threads=5"])

    assert layers.value("num.replica.fetchers") == "3"
    assert layers.warnings[0] == (
        "--set: num.replica.fetchers is a setting of Apache Kafka; it is kept but has no meaning "
        "here"
    )
    assert "before 4.0" in layers.warnings[1]
    assert len(layers.warnings) == 4
    assert "secret" not in "".join(layers.warnings)
    assert faults_of(sets=["num.replica.fetchers=x"])[0].startswith(
        "--set: num.replica.fetchers is x"
    )


def test_names_of_a_listener_need_a_setting_of_kafka() -> None:
    """listener.name.NAME. alone makes no setting."""
    (fault,) = faults_of(sets=["listener.name.lan.nonsense=1"])

    assert fault.startswith("--set: listener.name.lan.nonsense is not a setting")


def test_small_segments_are_a_warning() -> None:
    """log.segment.bytes below Kafka's floor is taken, with a warning; below 14 it is a fault."""
    layers = load(None, {}, ["log.segment.bytes=14"])

    assert layers.topic().segment_bytes == 14
    assert layers.warnings == (
        "--set: log.segment.bytes is 14; Apache Kafka wants at least 1048576",
    )
    assert faults_of(sets=["log.segment.bytes=13"]) == (
        "--set: log.segment.bytes is 13; it must be at least 14",
    )


def test_variables_that_are_no_settings() -> None:
    """Variables that commands use or Kubernetes injects are passed over."""
    environ = {
        "SILTSTONE_CONFIG": "/etc/siltstone/server.yaml",
        "SILTSTONE_SERVICE_HOST": "10.0.0.1",
        "SILTSTONE_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "SILTSTONE_PORT": "tcp://10.0.0.1:9092",
    }

    assert load(None, environ, []).static == {}


def test_settings_of_one_listener_are_not_for_the_environment() -> None:
    """A listener's name cannot be told from the setting's in a variable."""
    (fault,) = faults_of(environ={"SILTSTONE_LISTENER_NAME_LAN_SSL_KEY_PASSWORD": "x"})

    assert fault == (
        "SILTSTONE_LISTENER_NAME_LAN_SSL_KEY_PASSWORD is not a setting; put settings of one "
        "listener in the file, or give them by --set"
    )


def test_other_names() -> None:
    """broker.id and log.dir stand in for node.id and log.dirs, which win where both are set."""
    layers = load(None, {}, ["broker.id=7", "log.dir=/data"])

    assert layers.server().node_id == 7
    assert layers.server().log_dirs == ("/data",)
    assert load(None, {}, ["log.dir=/a", "log.dirs=/b"]).warnings == (
        "--set: log.dir has no effect, because log.dirs is set too",
    )
    assert faults_of(sets=["broker.id=1", "node.id=2"]) == (
        "--set: broker.id is not what node.id says (--set); remove one",
    )


def test_the_first_synonym_wins_wherever_it_stands() -> None:
    """log.retention.ms in the environment beats log.retention.hours on the command line."""
    layers = load(None, {"SILTSTONE_LOG_RETENTION_MS": "5"}, ["log.retention.hours=1"])

    assert layers.topic().retention_ms == 5
    assert layers.warnings == (
        "--set: log.retention.hours has no effect, because log.retention.ms is set too",
    )


@pytest.mark.parametrize(
    ("sets", "fault"),
    [
        (["log.retention.ms=0"], "it must be -1 (no limit) or at least 1"),
        (["log.roll.ms=0"], "it must be at least 1"),
        (["log.roll.jitter.hours=-1"], "it must be at least 0"),
        (["log.dirs="], "log.dirs is empty; it must be given and not empty"),
        (["log.dirs=/a,,/b"], "a list without empty items"),
        (["log.dirs=/a,/b/../a"], "--set: log.dirs names a folder twice"),
        (["http.listener=9464"], "--set: http.listener is 9464; write host:port"),
        (["listeners=LAN://a:1"], "--set: listeners names the listener LAN"),
        (["advertised.listeners=PLAINTEXT://a"], "--set: advertised.listeners has the entry"),
        (
            ["listeners=C://a:1", "controller.listener.names=C"],
            "--set: listeners has only listeners of a controller; add one for clients",
        ),
        (
            ["log.cleaner.min.compaction.lag.ms=2", "log.cleaner.max.compaction.lag.ms=1"],
            "the first must not be larger",
        ),
        (
            ["log.cleaner.threads=2", "log.cleaner.dedupe.buffer.size=2097152"],
            "each thread needs more than 1048576 bytes",
        ),
    ],
)
def test_checks_before_the_start(sets: list[str], fault: str) -> None:
    """A fault that keeps a broker from starting is found when its settings are loaded."""
    (found,) = faults_of(sets=sets)

    assert fault in found


def test_what_a_list_names_twice_counts_once() -> None:
    """As in Apache Kafka, for lists of any kind."""
    sets = ["log.cleanup.policy=compact, compact", "group.consumer.assignors=range,range"]
    server = load(None, {}, sets).server()

    assert server.topic_defaults.cleanup_policy == ("compact",)
    assert server.group_consumer_assignors == ("range",)


def test_a_dedupe_buffer_is_only_for_a_cleaner_that_runs() -> None:
    """Without the cleaner nobody needs its memory."""
    load(None, {}, ["log.cleaner.enable=false", "log.cleaner.dedupe.buffer.size=1"])


def test_loading_brings_in_nothing_slow() -> None:
    """A start without a file waits neither for YAML nor for difflib nor for Kafka's names."""
    code = (
        "import sys; from siltstone.config import known, load; load.load(None, {}, []);"
        "print([name for name in ('yaml', 'difflib', 'siltstone.config.file')"
        " if name in sys.modules], known.known_settings.cache_info().currsize)"
    )

    done = run_to_end([sys.executable, "-c", code], check=True)

    assert done.stdout == "[] 0\n"


def test_settings_for_replicas_have_one_line() -> None:
    """It says what they come to here, whatever of them is copied from a cluster's file."""
    sets = [
        "default.replication.factor=3",
        "min.insync.replicas=2",
        "offsets.topic.replication.factor=3",
        "transaction.state.log.replication.factor=3",
        "transaction.state.log.min.isr=2",
    ]

    (line,) = load(None, {}, sets).warnings
    assert line == (
        f"--set: {', '.join(sets)}: this broker is alone, so that a topic has one copy, which "
        "acks=all waits for; a disk that is lost takes it along: see siltstone backup"
    )
    assert load(None, {}, ["default.replication.factor=1", "min.insync.replicas=1"]).warnings == ()
    with pytest.raises(ConfigError, match="it must be"):
        load(None, {}, ["offsets.topic.replication.factor=99999"])
