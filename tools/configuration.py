"""Writes the documents about the table of settings: `python -m tools.configuration` in the root.

`docs/configuration.md` and `config/server.yaml` are never edited by hand; a test compares them.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from siltstone.config.keys import Kind, Setting
from siltstone.config.known import Known, known_settings
from siltstone.config.protection import find_promise
from siltstone.config.sources import RESERVED
from siltstone.config.table import BROKER, OBEYED, SERVER, SYNONYMS
from siltstone.config.values import text_of

_INTRODUCTION = """\
# Configuration

Made from the table in `config/` by `make docs`; do not edit it here.

Settings have the names and meanings that they have in Apache Kafka. No setting is required. The
value of a setting is the first of these that exists:

1. the topic's own value (`kafka-configs --entity-type topics`);
2. a value that was changed while the broker runs, for this broker, then for all brokers;
3. `--set NAME=VALUE` on the command line, the last one if repeated;
4. the environment: `SILTSTONE_LOG_SEGMENT_BYTES` is `log.segment.bytes`, and so are
   `KAFKA_LOG_SEGMENT_BYTES` and `KAFKA_CFG_LOG_SEGMENT_BYTES`, as below;
5. the file named by `--config`: YAML, one `NAME: VALUE` on a line, lists as `[a, b]` or `a,b`; a
   file whose name ends in `.properties` is read as Apache Kafka reads its own;
6. the default.

If several names give one value, such as `log.retention.ms`, `log.retention.minutes` and
`log.retention.hours`, the first of them that is set wins, in the order in which they are listed.

A name that Kafka 4.4.0 knows but that has no meaning here is kept, with a warning. Any other name
is a fault. `siltstone check --config FILE` lists all faults of a file, `siltstone config` prints
every value in force with its source.

On SIGHUP or `siltstone reload` the broker reads the file, the environment and the command line of
its start again (Apache Kafka stops on SIGHUP; stop this broker by SIGTERM). Settings that can be
altered while the broker runs take effect at once, and so do all defaults of topics, under any name;
other settings change at the restart, and the log names them. A value that was changed while the
broker runs still wins, and is named, too. If the file has a fault, nothing changes, and the faults
are logged. `siltstone diff` prints beforehand what a reload and a restart would change. Each change
is logged with the old value, the new value and the source. The broker notices a changed file within
some seconds: with `config.reload.on.change=true` it reloads the file, otherwise it logs what a
reload would do.
"""

_KAFKA_VARIABLES = """\
Variables of Apache Kafka's container image are read by its rule, so that its compose files work
unchanged: after `KAFKA_`, or Bitnami's `KAFKA_CFG_`, `_` means a dot, `__` means `_` and `___`
means `-`. `CLUSTER_ID` is `cluster.id`. If only `KAFKA_ADVERTISED_LISTENERS` is given, the broker
binds these listeners on all interfaces. If a variable or `--set` gives only listeners, the file's
advertised addresses of other listeners are left out; a listener without a host in
`KAFKA_LISTENERS`, such as `PLAINTEXT://:9092`, is advertised by this machine's name, as in Kafka. A
variable or `--set` wins over a file, whichever name of the setting it uses: so
`KAFKA_LOG_RETENTION_HOURS` wins over `log.retention.ms` in a file. A log line names each variable
that has no meaning here. The broker does not start with variables by which the image's scripts
would set up TLS or users, with a controller without a broker, with a quorum of several nodes, with
another cluster id than the folder's, or if two variables give a setting different values.

If a folder with a `server.properties` is mounted at `/mnt/shared/config`, the image reads this file
in place of its own, as Apache Kafka's image does. Then nothing of its own file counts: that file
names the data folder, and `http.listener` is on the container's loopback unless it is set.
"""

_VARIABLES = (
    "Variables that are no settings: {names}. Names that begin with `SILTSTONE_SERVICE_` or "
    "`SILTSTONE_PORT` are ignored: Kubernetes sets them for a service that is called siltstone."
)

_KEPT = """\
Apache Kafka 4.4.0, or a version before 4.0, knows these settings; here they are accepted and have
no effect: they are about clusters, plug-ins or features that do not exist here, or not yet. The
same holds for `listener.name.NAME.…` with any of them.
"""

_REFUSED = """\
These settings promise protection that does not exist here, and a user that sets one relies on it:
the broker does not start, and `siltstone check` says what to do instead. The same goes for
`listener.name.NAME.…` with one of them, and for a change while the broker runs. Kafka's default and
an empty value promise nothing and are accepted; but `sasl.enabled.mechanisms` always promises the
mechanisms that it names, and `allow.everyone.if.no.acl.found` promises rights unless it is true.
"""

_SAMPLE = """\
# The settings of the broker, all at their defaults. Take the # away from a line to change it.
# Made from the table in config/ by `make docs`. Each has one sentence here; docs/configuration.md
# has the rest, and says where else a value may come from. `siltstone check --config FILE` finds
# mistakes without starting.
"""


def configuration_page() -> str:
    """Return the text of docs/configuration.md."""
    names = ", ".join(f"`{name}`" for name in sorted(RESERVED))
    parts = [
        _INTRODUCTION,
        _KAFKA_VARIABLES,
        "\n".join(wrap(_VARIABLES.format(names=names), 100)) + "\n",
        "## The broker\n",
        *(_section(setting) for setting in SERVER.values()),
        "## Defaults of topics\n",
        "Broker settings that give a topic's value where the topic does not set it.\n",
        *(_section(setting) for setting in SYNONYMS.values()),
        "## Topics\n",
        "All of them can be altered while the broker runs.\n",
        *(_section(setting) for setting in OBEYED.values()),
        "## Kept without meaning\n",
        _KEPT,
        f"Topics: {_listed(known_settings('topic').values(), OBEYED)}.\n",
        f"Broker: {_listed(known_settings('broker').values(), {*BROKER, *_promising()})}.\n",
        "## Refused\n",
        _REFUSED,
        *(_refused(words, names) for words, names in _by_promise().items()),
    ]
    return "\n".join(parts)


def _promising() -> dict[str, str]:
    """Return the table of settings that are refused, each with its promise."""
    promises = {name: find_promise(name) for name in known_settings("broker") if name not in BROKER}
    return {name: each.words for name, each in promises.items() if each is not None}


def _by_promise() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, words in _promising().items():
        names.setdefault(words, []).append(name)
    return names


def _refused(words: str, names: Iterable[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return "\n".join(wrap(f"They promise {words}: {listed}.", 100)) + "\n"


def _section(setting: Setting) -> str:
    facts = [f"* type {setting.kind.name.lower()}, default {_default(setting)}"]
    if setting.check is not None:
        facts.append(f"* must be {setting.check.words}")
    if setting.advice is not None:
        facts.append(f"* a warning unless {setting.advice.words}")
    others = [f"`{name}`" for name in setting.synonyms if name != setting.name]
    if setting.name in SYNONYMS and others:
        facts.append(f"* the first that is set: {', '.join(f'`{s}`' for s in setting.synonyms)}")
    elif others:
        facts.append(f"* where it is not set: {', then '.join(others)}")
    if setting.dynamic:
        facts.append("* can be altered while the broker runs")
    if setting.ours:
        facts.append("* ours: Apache Kafka has no such setting")
    text = "\n".join(wrap(setting.documentation, 100))
    return f"### `{setting.name}`\n\n{text}\n\n" + "\n".join(facts) + "\n"


def _default(setting: Setting) -> str:
    text = text_of(setting.kind, setting.default)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def _listed(known: Iterable[Known], obeyed: Iterable[str]) -> str:
    obeyed = set(obeyed)
    return "\n".join(
        wrap(", ".join(f"`{each.name}`" for each in known if each.name not in obeyed), 100)
    )


def sample_file() -> str:
    """Return the text of config/server.yaml."""
    parts = [_SAMPLE, "# ---- the broker\n", *_samples(SERVER.values())]
    parts += ["\n# ---- what topics do when they do not say otherwise\n"]
    parts += [*_samples(SYNONYMS.values()), ""]
    return "\n".join(parts)


def _samples(settings: Iterable[Setting]) -> Iterator[str]:
    """Yield each setting after the first sentence of its documentation."""
    for setting in settings:
        words = re.sub(r"^Where a topic does not set \S+ ", "", setting.documentation)
        sentence = re.split(r"(?<=\.) (?=[A-Z`])", words, maxsplit=1)[0]
        yield from (f"# {line}" for line in wrap(sentence, 98))
        yield _sample_line(setting)


def _sample_line(setting: Setting) -> str:
    """Return the commented setting; without a default there is no value to show."""
    text = text_of(setting.kind, setting.default)
    if text is None:
        return f"#{setting.name}:"
    if not text and setting.kind is not Kind.LIST:
        return f'#{setting.name}: ""'
    return f"#{setting.name}: {f'[{text}]' if setting.kind is Kind.LIST else text}"


def write(root: Path) -> None:
    """Write both documents under the root of the repository. Writes to the disk."""
    (root / "docs/configuration.md").write_text(configuration_page(), "utf-8")
    (root / "config/server.yaml").write_text(sample_file(), "utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent.parent)
