"""`siltstone topics`, `groups`, `produce` and `consume` on a running broker."""

import asyncio
import io
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from siltstone.broker.__main__ import main
from siltstone.broker.commands.kafka import broker as kafka_broker
from siltstone.broker.commands.kafka.broker import Refused, why
from siltstone.broker.commands.kafka.consume import BadFormat, read_format
from siltstone.broker.commands.kafka.offset_words import BadOffset, read_offset
from siltstone.broker.commands.kafka.produce import lines_of, murmur2, partition_for
from tests.support import group_requests
from tests.support.authority import Authority
from tests.support.broker import siltstone
from tests.support.commits import commit
from tests.support.running import Running, a_broker, running
from tests.support.shell import Shell, shell
from tests.support.traffic import Traffic
from tests.support.waiting import within

broker = a_broker()
__all__ = ["shell"]


async def test_the_life_of_a_topic(shell: Shell) -> None:
    """Created, listed, altered, described, deleted."""
    settings = ("-c", "retention.ms=5000", "-c", "segment.ms=60000")
    assert await shell.run("topics", "create", "orders", "-p", "3", *settings) == "created orders\n"
    listed = await shell.run("topics")
    assert listed.splitlines() == ["TOPIC   PARTITIONS  SIZE", "orders           3   0 B"]

    await shell.run("topics", "alter", "orders", "-c", "segment.ms=7", "--unset", "retention.ms")
    assert await shell.run("topics", "alter", "orders", "-p", "4") == "altered orders\n"
    (told,) = (await shell.ask("topics", "describe", "orders"))["topics"]
    given = {each["name"]: each["value"] for each in told["settings"] if each["source"] == "topic"}
    assert given == {"segment.ms": "7"}
    assert [each["partition"] for each in told["partitions"]] == [0, 1, 2, 3]
    assert (told["partitions"][0]["start"], told["partitions"][0]["end"]) == (0, 0)

    assert await shell.run("topics", "delete", "orders") == "deleted orders\n"
    assert await shell.ask("topics") == {"topics": []}


async def test_a_list_of_all_topics_is_a_short_question(
    shell: Shell, broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: a request with too many names or numbers closes its connection."""
    for number in range(20):
        await broker.topics.create(f"t{number}", 1, {})
    asked: list[Any] = []
    ask = kafka_broker.Broker.ask

    def note(self: kafka_broker.Broker, exchange: Any, request: Any) -> Any:
        asked.append(exchange.request.write(exchange.version, request))
        return ask(self, exchange, request)

    monkeypatch.setattr(kafka_broker.Broker, "ask", note)
    told = json.loads(await shell.run("topics", "--json"))

    assert len(told["topics"]) == 20
    assert all(len(each) < 20 for each in asked)


async def test_what_the_readme_says(broker: Running) -> None:
    """Its shell block runs as it stands; the environment says where the broker is."""
    readme = (Path(__file__).parents[4] / "README.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    (code,) = (each for each in blocks if "siltstone topics" in each)
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-eu",
        "-c",
        code,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            "PATH": f"{Path(siltstone()).parent}:/usr/bin:/bin",
            "SILTSTONE_LISTENERS": f"PLAINTEXT://127.0.0.1:{broker.listeners[0].port}",
        },
    )
    out, error = await within(process.communicate(), "the end of the commands")

    assert process.returncode == 0, error
    assert set(out.decode().splitlines()) >= {
        "created customers",
        "ada lives in London",
        "grace lives in New York",
    }


async def test_what_is_refused_is_said_in_a_sentence(shell: Shell) -> None:
    """On stderr, with exit code 1; a topic that could be made is made all the same."""
    await shell.run("topics", "create", "orders")

    assert await shell.run("topics", "create", "orders", "events", code=1) == "created events\n"
    assert shell.error == "topic orders already exists (TOPIC_ALREADY_EXISTS)\n"
    await shell.run("topics", "describe", "nobody", code=1)
    assert shell.error == (
        "topic nobody: there is no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )
    await shell.run("topics", "alter", "orders", "-c", "segment.ms=soon", code=1)
    assert "segment.ms" in shell.error
    await shell.run("groups", "delete", "nobody", code=1)
    assert shell.error == "group nobody: there is no such group (GROUP_ID_NOT_FOUND)\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("topics", "delete"), "siltstone topics delete wants the name of a topic"),
        (("topics", "alter", "a"), "siltstone topics alter wants -c NAME=VALUE"),
        (("topics", "create", "a", "-c", "x"), "-c x: write NAME=VALUE"),
        (("groups", "describe"), "siltstone groups describe wants the name of a group"),
        (("produce", "a", "-H", "x"), "-H x: write NAME=VALUE"),
        (("produce", "a", "--tombstones"), "--tombstones wants --key-separator"),
        (("consume", "a", "-o", "soon"), "-o soon: write start, end, a number, -N, or @ and"),
        (("consume", "a", "-o", "@soon"), "-o @soon: soon is no time; write ms since 1970"),
        (("consume", "a", "-f", "%x"), "-f has %x; there are %t, %p, %o"),
        (("consume", "a", "-f", "\\x"), "-f has \\x; there are %t, %p, %o"),
    ],
)
async def test_wrong_usage(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    """Exit code 2, and nobody is asked."""
    await shell.run(*words, code=2)

    assert shell.error.startswith(sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("topics", "create", "a", "-p", "0"), "0 is not a whole number from 1 on"),
        (("consume", "a", "-n", "-1"), "-1 is not a whole number from 1 on"),
        (("produce", "a", "-k", ""), "nothing parts nothing; name a character"),
        (("topics", "-b", "kafka"), "'kafka' is not HOST:PORT"),
        (("topics", "-b", "kafka:0"), "'kafka:0' is not HOST:PORT"),
    ],
)
def test_words_that_mean_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    """Wrong usage, with the option that it is about."""
    with pytest.raises(SystemExit) as stop:
        main([*words])

    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


async def test_a_tab_between_key_and_value(shell: Shell) -> None:
    """As a format has it; a line without one is named."""
    await shell.run("topics", "create", "orders")

    await shell.run("produce", "orders", "-k", r"\t", given=b"a\t1\nb\t2\n")
    assert await shell.run("consume", "orders", "-f", r"%k=%v\n") == "a=1\nb=2\n"
    await shell.run("produce", "orders", "-k", r"\t", given=b"a:1\n", code=1)
    assert r"line 1 has no '\t' between key and value" in shell.error


async def test_an_input_that_is_closed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no standard input then: a sentence, and no traceback."""
    monkeypatch.setattr(sys, "stdin", None)

    assert await asyncio.to_thread(main, ["produce", "orders"]) == 1


async def test_names_that_no_topic_has(shell: Shell) -> None:
    """The broker's code comes with what to do about it."""
    await shell.run("produce", "or ders", code=1)

    assert shell.error == (
        "topic or ders: this cannot be a topic's name; use up to 249 letters, digits, '.', '_' and "
        "'-' of ASCII (INVALID_TOPIC_EXCEPTION)\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "describe", "\udcff"],
        ["topics", "create", "t", "-c", "\udcff=1"],
        ["groups", "delete", "\udcff"],
        ["produce", "\udcff"],
        ["consume", "\udcff"],
    ],
)
async def test_names_that_are_not_utf_8(shell: Shell, words: list[str]) -> None:
    """The bytes of such a word come as surrogates, which no request can have."""
    await shell.run(*words, code=1)

    assert shell.error == (
        "siltstone: '\\udcff' is not UTF-8, which a name must be; check its spelling\n"
    )


async def test_a_port_that_speaks_http(capsys: pytest.CaptureFixture[str]) -> None:
    """The two ports are easily mistaken for each other."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        code = await asyncio.to_thread(main, ["topics", "-b", f"127.0.0.1:{port}"])

    assert code == 1
    assert "it speaks HTTP, not Kafka's protocol" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["topics"], ["topics", "create", "t"], ["consume", "t"]])
def test_a_broker_that_hangs(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It accepts connections and says nothing, as a stopped process does."""
    monkeypatch.setattr(kafka_broker, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main([*words, "-b", address]) == 1
    assert capsys.readouterr().err == (
        f"no Kafka broker answers at {address}: it has not answered for 0.1 s; "
        "check --bootstrap-server and --command-config\n"
    )


async def test_a_listener_with_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says that it is one; a command that wants TLS of another port says so."""
    pair = Authority(tmp_path / "ca").issue("server")
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    sets = (
        "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        f"ssl.keystore.location={pair.store}",
    )

    async with running(tmp_path / "data", *sets) as home:
        tls, plain = (f"127.0.0.1:{each.port}" for each in home.listeners)
        codes = [
            await asyncio.to_thread(main, ["topics", "-b", tls]),
            await asyncio.to_thread(main, ["topics", "-b", tls, "--command-config", str(config)]),
            await asyncio.to_thread(main, ["topics", "-b", plain, "--command-config", str(config)]),
        ]

    assert codes == [1, 1, 1]
    without, untrusted, none = capsys.readouterr().err.splitlines()
    assert without == (
        f"no Kafka broker answers at {tls}: it speaks TLS; set security.protocol to SSL, or to "
        "SASL_SSL for a login; check --bootstrap-server and --command-config"
    )
    untrusted_certificate = "is another broker than it should be: its certificate is not trusted ("
    assert f"{tls} {untrusted_certificate}" in untrusted
    assert untrusted.endswith("; name a PEM file of its authority by ssl.truststore.location")
    assert f"no Kafka broker answers at {plain}: it ends no TLS handshake (" in none


@pytest.mark.parametrize(
    ("protocol", "given", "sentence"),
    [
        (
            "SASL_SSL",
            "",
            (
                "encrypts and asks for a login, and the command comes with PLAINTEXT: name a file "
                "with security.protocol=SASL_SSL, sasl.mechanism and sasl.jaas.config, "
                "ssl.truststore.location, a PEM file of its authority by --command-config, or "
                "another listener by --bootstrap-server"
            ),
        ),
        ("SSL", "", "encrypts, and the command comes with PLAINTEXT"),
        ("SASL_PLAINTEXT", "SSL", "asks for a login, and the command comes with SSL"),
        ("PLAINTEXT", "SSL", "neither encrypts nor asks for a login, and the command comes with"),
    ],
)
def test_what_the_settings_say_of_the_listener(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: str, given: str, sentence: str
) -> None:
    """Known before anything is asked, so that no line of a log is spent on it."""
    sets = ["--set", f"listeners={protocol}://127.0.0.1:1"]
    if protocol.startswith("SASL"):
        sets += ["--set", "sasl.enabled.mechanisms=PLAIN"]
    if protocol.endswith("SSL"):
        sets += ["--set", "ssl.keystore.location=/none"]
    if given:
        config = tmp_path / "client.properties"
        config.write_text(f"security.protocol={given}\n")
        sets += ["--command-config", str(config)]

    assert main(["topics", *sets]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"listener {protocol}://127.0.0.1:1 {sentence}")


def test_defaults_say_nothing_of_the_listener(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker at the usual port may have a file of settings that the command is not given."""

    def refuse(address: tuple[str, int], settings: dict[str, str], *_: str, **__: str) -> None:
        raise Refused(f"{address[1]} by {settings['security.protocol']}")

    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\n")
    monkeypatch.setattr("siltstone.broker.commands.kafka.broker.Wire", refuse)

    assert main(["topics", "--command-config", str(config)]) == 1
    assert capsys.readouterr().err == "9092 by SASL_SSL\n"


async def test_lines_become_records_and_lines_again(shell: Shell) -> None:
    """Keys, tombstones, headers, codecs; a key's partition is that of the Java client."""
    await shell.run("topics", "create", "orders", "-p", "3")
    words = ("-k", ":", "--tombstones", "-H", "from=test", "-z", "zstd")
    await shell.run("produce", "orders", *words, given=b"a:1\nb:2:3\na:\nlast:\xff")
    assert shell.error == "4 records produced to orders\n"

    printed = await shell.run("consume", "orders", "-f", "%t %p %o %k=%v %S %h %%\\n")
    where = {key: partition_for(key.encode(), 3) for key in ("a", "b", "last")}
    rows = {tuple(line.split(" ", 3)[1:3]): line.split(" ", 3)[3] for line in printed.splitlines()}
    assert rows[str(where["a"]), "0"] == "a=1 1 from=test %"
    assert rows[str(where["b"]), "0" if where["b"] != where["a"] else "1"] == "b=2:3 3 from=test %"
    found = [
        json.loads(line) for line in (await shell.run("consume", "orders", "--json")).splitlines()
    ]
    by_value = {each["key"]: each["value"] for each in found}
    assert by_value == {"a": None, "b": "2:3", "last": {"base64": "/w=="}}
    assert found[0]["headers"] == [["from", "test"]]


async def test_a_terminal_is_not_steered_by_records(shell: Shell, broker: Running) -> None:
    """Control characters are spelled there; a pipe, and --raw, have the bytes as they are."""
    value = b"\x1b]0;owned\x07\x1b[2Jover\r\nf\xc3\xbcr\t\xff"
    await shell.run("topics", "create", "orders")
    await Traffic(await broker.call(), "orders").produce(value)
    consume = ("consume", "orders", "-f", r"%o\n%v|\n")

    shown = await shell.show(*consume)
    raw = await shell.show(*consume, "--raw")

    assert shown.decode() == "0\n" + r"\x1b]0;owned\x07\x1b[2Jover\r\nfür\t\xff|" + "\n"
    assert raw == b"0\n" + value + b"|\n"
    assert await shell.run(*consume) == f"0\n{value.decode(errors='replace')}|\n"


async def test_where_to_begin_and_how_many(shell: Shell) -> None:
    """By number, from the end, by time, and no further than the end at the start."""
    await shell.run("topics", "create", "numbers")
    await shell.run("produce", "numbers", given=b"".join(b"%d\n" % each for each in range(10)))

    async def values(*words: str) -> list[int]:
        return [int(line) for line in (await shell.run("consume", "numbers", *words)).splitlines()]

    assert await values() == list(range(10))
    assert await values("-o", "7") == [7, 8, 9]
    assert await values("-o", "-2") == [8, 9]
    assert await values("-o", "3", "-n", "2") == [3, 4]
    assert await values("-o", "end") == []
    assert await values("-o", "@0", "-n", "1") == [0]
    assert await values("-o", "@2099-01-01") == []
    await shell.run("consume", "numbers", "-o", "11", code=1)
    assert shell.error == "offset 11 does not exist yet: numbers-0 ends at 10\n"
    await shell.run("consume", "numbers", "-p", "4", code=1)
    assert shell.error == "topic numbers has no partition 4; it has 1\n"


async def test_follow_waits_for_more(shell: Shell, broker: Running) -> None:
    """Records after the end are printed too; a count ends it."""
    await shell.run("topics", "create", "orders")
    follow = asyncio.create_task(shell.run("consume", "orders", "-o", "end", "--follow", "-n", "1"))
    while not broker.waiting.count:
        await asyncio.sleep(0)
    await Traffic(await broker.call(), "orders").produce(b"late")

    assert await follow == "late\n"


async def test_groups_with_their_lag(shell: Shell, broker: Running) -> None:
    """Committed offsets beside ends; a group without members can be deleted."""
    await shell.run("topics", "create", "orders")
    await shell.run("produce", "orders", given=b"1\n2\n3\n")
    await commit(broker, "billing", 1)

    assert (await shell.ask("groups"))["groups"] == [
        {"group": "billing", "state": "Empty", "protocol": "classic", "partitions": 1, "lag": 2}
    ]
    described = (await shell.run("groups", "describe", "billing")).splitlines()
    assert described[0] == "billing: Empty, classic, 0 members, lag 2"
    assert described[3].split() == ["orders", "0", "1", "3", "2", "-", "-"]
    assert await shell.run("groups", "delete", "billing") == "deleted billing\n"
    assert await shell.ask("groups") == {"groups": []}


async def test_offsets_that_are_set(shell: Shell) -> None:
    """By a word, a number or a time; a dry run changes nothing."""
    await shell.run("topics", "create", "orders", "-p", "2")
    await shell.run("produce", "orders", "-k", ":", given=b"a:1\nb:2\nc:3\nd:4\n")
    ends = {each: int((await shell.ask("topics", "describe", "orders"))["topics"][0]["partitions"]
            [each]["end"]) for each in (0, 1)}  # fmt: skip
    reset = ["groups", "reset", "billing"]

    assert await shell.ask(*reset, "--to", "start", "--topic", "orders") == {
        "reset": [
            {"group": "billing", "topic": "orders", "partition": each, "from": None, "to": 0}
            for each in (0, 1)
        ]
    }
    (tried, _) = (await shell.ask(*reset, "--to", "end", "--dry-run"))["would_reset"]
    assert (tried["from"], tried["to"]) == (0, ends[0])
    told = (await shell.run(*reset, "--to", "-1", "--topic", "orders-1")).splitlines()
    assert told[1].split() == ["billing", "orders", "1", "0", str(max(0, ends[1] - 1))]
    offsets = (await shell.ask("groups", "describe", "billing"))["groups"][0]["offsets"]
    assert [each["committed"] for each in offsets] == [0, max(0, ends[1] - 1)]


async def test_offsets_that_are_not_set(shell: Shell, broker: Running) -> None:
    """A group has members, has committed nothing, or the topic does not exist."""
    await shell.run("topics", "create", "orders")
    await (await broker.call()).ask(group_requests.find("busy"))
    await broker.groups.loaded.wait()
    await (await broker.call()).ask(group_requests.consumer_beat("busy", "one", 0))

    for words, sentence in (
        (("busy", "--to", "start", "--topic", "orders"), "group busy: it has members; stop them"),
        (("nobody", "--to", "start"), "group nobody has committed nothing; say which topics"),
        (("nobody", "--to", "start", "--topic", "oders"), "oders: there is no such topic"),
        (
            ("nobody", "--to", "9", "--topic", "orders"),
            "offset 9 does not exist yet: orders-0",
        ),
    ):
        await shell.run("groups", "reset", *words, code=1)
        assert shell.error.startswith(sentence)
    await shell.run("groups", "reset", "billing", "--to", "soon", code=2)
    assert shell.error.startswith("--to soon: write start, end")
    await shell.run("groups", "reset", "billing", code=2)
    assert shell.error == "siltstone groups reset wants --to OFFSET\n"


@pytest.mark.parametrize("words", [["--dry-run"], ["--topic", "orders"], ["--to", "end"]])
async def test_words_of_a_reset_beside_a_deletion(
    shell: Shell, broker: Running, words: list[str]
) -> None:
    """A dry run is believed to change nothing, so the group stays."""
    await shell.run("topics", "create", "orders")
    await commit(broker, "billing", 0)

    await shell.run("groups", "delete", "billing", *words, code=2)

    assert "for siltstone groups reset alone" in shell.error
    assert [each["group"] for each in (await shell.ask("groups"))["groups"]] == ["billing"]


async def test_members_that_have_committed_nothing(shell: Shell, broker: Running) -> None:
    """Their partitions are listed with the ends; a member without one has a line, too."""
    await shell.run("topics", "create", "orders")
    await shell.run("produce", "orders", given=b"1\n2\n3\n")
    await (await broker.call()).ask(group_requests.find("billing"))
    await broker.groups.loaded.wait()
    for name in ("first", "second"):
        caller = await broker.call()
        caller.client_id = name
        answer = await caller.ask(group_requests.consumer_beat("billing", name, 0))
        assert answer.error_code == 0

    described = (await shell.run("groups", "describe", "billing")).splitlines()
    told = (await shell.ask("groups", "describe", "billing"))["groups"][0]["offsets"]

    assert described[0].endswith("consumer, 2 members, lag 0")
    assert described[3].split() == ["orders", "0", "-", "3", "-", "first", "/127.0.0.1"]
    assert described[4].split() == [*"-----", "second", "/127.0.0.1"]
    assert told == [{"topic": "orders", "partition": 0, "committed": None, "end": 3, "lag": None}]


async def test_a_line_without_a_key_ends_it(shell: Shell) -> None:
    """It says which line, and how many were sent before."""
    await shell.run("topics", "create", "orders")

    await shell.run("produce", "orders", "-k", ":", given=b"a:1\nb\n", code=1)

    assert shell.error.splitlines() == [
        "0 records produced to orders",
        "line 2 has no ':' between key and value",
    ]


async def test_a_batch_that_is_too_large_goes_in_halves(shell: Shell) -> None:
    """In their order; a single record that is too large is refused."""
    await shell.run("topics", "create", "orders", "-c", "max.message.bytes=2000")
    given = b"".join(b"%03d %s\n" % (each, b"x" * 500) for each in range(50))

    await shell.run("produce", "orders", given=given)
    printed = await shell.run("consume", "orders")
    await shell.run("produce", "orders", given=b"x" * 3000, code=1)

    assert [int(line[:3]) for line in printed.splitlines()] == list(range(50))
    assert "MESSAGE_TOO_LARGE" in shell.error


async def test_nobody_answers(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The address, why, and what to check; with port 0 that no broker runs."""
    assert await asyncio.to_thread(main, ["topics", "-b", "127.0.0.1:1"]) == 1
    error = capfdbinary.readouterr().err.decode()
    assert "no Kafka broker answers at 127.0.0.1:1: Connection refused; " in error
    assert error.endswith("; check --bootstrap-server and --command-config\n")
    sets = (
        "listeners=PLAINTEXT://127.0.0.1:0",
        "http.listener=127.0.0.1:0",
        f"log.dirs={tmp_path}",
    )
    words = [word for each in sets for word in ("--set", each)]
    assert await asyncio.to_thread(main, ["topics", *words]) == 1
    assert f"no broker has {tmp_path} open" in capfdbinary.readouterr().err.decode()


@pytest.mark.parametrize("size", range(12))
def test_keys_are_hashed_as_by_other_clients(size: int) -> None:
    """Whatever is left over of four bytes."""
    for key in (bytes(range(size)), bytes(size), b"\xff" * size):
        assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


def test_lines_that_come_in_pieces() -> None:
    """A line goes over reads; the last needs no end."""

    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(3)

    lines = [line for some in lines_of(Pieces(b"one\n\ntwenty\nthirty")) for line in some]

    assert lines == [b"one", b"", b"twenty", b"thirty"]


def test_formats_and_offsets_that_mean_nothing() -> None:
    """A sentence each."""
    with pytest.raises(BadFormat, match=r"-f has %; there are"):
        read_format("100%")
    with pytest.raises(BadOffset, match="write start, end"):
        read_offset("--5")
    assert why(9999, None, "topic a") == "topic a: error 9999"
