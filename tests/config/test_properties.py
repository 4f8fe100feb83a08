"""Files as Apache Kafka has them, and what stands in the one that comes with it."""

from pathlib import Path

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.listeners import Listener
from siltstone.config.load import load
from siltstone.config.properties import properties_entries

KAFKAS = """\
# What Apache Kafka 4.3.1 sets in its config/server.properties.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a server.properties that the test writes."""
    return tmp_path / "server.properties"


def read(file: Path, text: str) -> list[tuple[str, str, int]]:
    """Return the names and values of a file, and the lines that they stand in."""
    file.write_bytes(text.encode())
    faults: list[str] = []
    entries = properties_entries(file, faults, faults)
    assert faults == []
    return [(each.name, each.text, int(each.where.rpartition(" ")[2])) for each in entries]


def test_kafkas_own_file_is_taken(file: Path) -> None:
    """A combined node's: the listener of its controller is left out, and one line says so."""
    file.write_text(KAFKAS)

    layers = load(file, {}, [])
    server = layers.server()

    assert server.bound_listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert server.advertised == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert server.log_dirs == ("/tmp/kraft-combined-logs",)
    (about,) = [each for each in layers.warnings if "CONTROLLER" in each]
    assert about == (
        f"{file} line 5: CONTROLLER in listeners is not opened: it is a controller's, and one node "
        "needs none"
    )
    assert all("is kept but has no meaning here" in each for each in layers.warnings[:-1])


def test_the_same_settings_are_taken_one_by_one() -> None:
    """As --set, too."""
    layers = load(None, {}, [line for line in KAFKAS.splitlines() if not line.startswith("#")])

    assert layers.server().advertised[0].host == "localhost"


def test_other_names_still_have_to_be_bound(file: Path) -> None:
    """Only a controller's may be advertised and not bound."""
    file.write_text(KAFKAS.replace("//localhost:9093", "//localhost:9093,SSL://localhost:9094"))

    with pytest.raises(ConfigError, match=r"advertised\.listeners names SSL, which is not in"):
        load(file, {}, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1", [("a.b", "1", 1)]),
        ("a.b = 1 2 ", [("a.b", "1 2 ", 1)]),
        ("a.b: 1", [("a.b", "1", 1)]),
        ("a.b 1", [("a.b", "1", 1)]),
        ("a.b", [("a.b", "", 1)]),
        ("a==b", [("a", "=b", 1)]),
        ("# c\n! d\n\n \t a=1\r\nb=2\rc=3", [("a", "1", 4), ("b", "2", 5), ("c", "3", 6)]),
        ("a=1,\\\n   2,\\\n# 3\nb=4", [("a", "1,2,# 3", 1), ("b", "4", 4)]),
        ("a=1\\\\\nb=2", [("a", "1\\", 1), ("b", "2", 2)]),
        ("a\\=b=\\u0041\\t\\q", [("a=b", "A\tq", 1)]),
        ("a=1\\", [("a", "1", 1)]),
        ("", []),
    ],
)
def test_lines_mean_what_they_mean_to_java(
    file: Path, text: str, expected: list[tuple[str, str, int]]
) -> None:
    """Separators, comments, continued lines and escapes of java.util.Properties."""
    assert read(file, text) == expected


def test_faults_have_their_line(file: Path) -> None:
    """One that is no setting."""
    file.write_text("num.partitions=2\n\n\nnum.partition=4\n")

    with pytest.raises(ConfigError) as caught:
        load(file, {}, [])

    assert caught.value.faults == (
        f"{file} line 4: num.partition is not a setting; did you mean num.partitions?",
    )


def test_of_a_name_that_comes_twice_the_last_counts(file: Path) -> None:
    """As in Apache Kafka, to whose file an image or a script appends; each is named."""
    file.write_text(
        "num.partitions=2\nlog.retention.hours=168\nnum.partitions=3\nnum.partitions=4\n"
    )

    layers = load(file, {}, [])

    assert layers.server().num_partitions == 4
    assert layers.where("num.partitions") == f"{file} line 4"
    counts = "this value counts, as the last; remove the other"
    assert layers.warnings == (
        f"{file} line 3: num.partitions is on line 1 too; {counts}",
        f"{file} line 4: num.partitions is on line 3 too; {counts}",
    )


def test_files_that_cannot_be_read(file: Path) -> None:
    """A missing file is a fault that names it."""
    with pytest.raises(ConfigError, match=r"server\.properties cannot be read: No such file"):
        load(file, {}, [])


def test_other_letters_are_latin(file: Path) -> None:
    """As Apache Kafka reads the bytes of its file."""
    file.write_bytes(b"broker.rack=\xe9t\xe9\n")

    assert load(file, {}, []).server().broker_rack == "été"


def test_the_mark_of_an_editor_is_no_letter_of_a_name(file: Path) -> None:
    """Some begin a file of UTF-8 with one."""
    file.write_bytes(b"\xef\xbb\xbfnum.partitions=3\n")

    assert load(file, {}, []).server().num_partitions == 3
