"""``python -m siltstone.pipeline``: from arguments to a job, and from its errors to one sentence.

Exit codes: 0 fine, 1 a fault, or faults found by an audit, 2 wrong usage.
"""

import json
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from siltstone.config.properties import properties_entries
from siltstone.pipeline import settings
from siltstone.pipeline.command.arguments import make_parser
from siltstone.pipeline.engine import Engine, LocalEngine, SparkEngine
from siltstone.pipeline.errors import BadOption, PipelineError, python_error_in
from siltstone.protocol.errors import visible

_PASSED_ON: Final = ("bootstrap", "data", "control", "archive", "transport")
_USAGE: Final = 2
_PACKAGE: Final = PipelineError.__module__.rpartition(".")[0]
_OF_A_WORKER: Final = re.compile(rf"^{re.escape(_PACKAGE)}\.[\w.]+: (.+)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run a job and return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        return _RUN[options.job](options)
    except PipelineError as error:
        if options.debug:
            raise
        return _fail(str(error), _USAGE if isinstance(error, BadOption) else 1)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if options.debug:
            raise
        return _fail(sentence_of(error))


def read_options(options: Namespace) -> dict[str, str]:
    """Return the arguments as options of the data source.

    Raises:
        BadOption: One is not NAME=VALUE, a file is not readable, or no topic is named.
    """
    read = _read_command_config(options.command_config) if options.command_config else {}
    for text in options.option:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadOption(f"--option {text} is not NAME=VALUE")
        read[name] = value
    for name in _PASSED_ON:
        if getattr(options, name):
            read[name] = getattr(options, name)
    if getattr(options, "all", False):
        read["subscribePattern"] = ".*"
    elif options.job in {"audit", "plan"} and not options.topic:
        raise BadOption(f"{options.job} wants a topic, or --all")
    elif options.job in {"audit", "plan", "export"}:
        read["subscribe"] = options.topic
    return read


def _read_command_config(file: str) -> dict[str, str]:
    """Return the settings of a Kafka client as options: ``kafka.`` and their names."""
    faults: list[str] = []
    warnings: list[str] = []
    entries = properties_entries(Path(file), faults, warnings, "--command-config")
    for each in warnings:
        _say(each)
    if faults:
        raise BadOption("; ".join(faults))
    return {f"kafka.{entry.name}": entry.text for entry in entries}


@contextmanager
def engine_of(options: Namespace) -> Iterator[Engine]:
    """Yield the engine that arguments name; its session ends with the block."""
    if options.engine == "local":
        local = LocalEngine(options.cores)
        try:
            yield local
        finally:
            local.close()
        return
    from siltstone.pipeline.spark.session import jars_in, open_session  # noqa: PLC0415  # Spark, only where it is asked for

    jars = jars_in(options.jars)
    session = open_session(f"siltstone {options.job}", master=options.master, jars=jars)
    try:
        yield SparkEngine(session)
    finally:
        session.stop()


def _snapshot(options: Namespace) -> int:
    from siltstone.pipeline.jobs.snapshot import SnapshotSpec, snapshot  # noqa: PLC0415  # as above

    spec = SnapshotSpec(
        topic=options.topic,
        target=options.target,
        incremental=options.incremental,
        key_scope=options.key_scope,
        plan=options.plan,
        headers=options.headers,
    )
    read = read_options(options)
    with engine_of(options) as engine:
        summary = snapshot(engine, read, spec)
    for line in summary.lines(options.topic):
        _say(line)
    return 0


def _export(options: Namespace) -> int:
    from siltstone.pipeline.jobs.export import COLUMNS, ExportSpec, export  # noqa: PLC0415  # as above

    read = read_options(options)
    if options.time_from:
        read["timestampFrom"] = options.time_from
    if options.time_to:
        read["timestampTo"] = options.time_to
    columns = COLUMNS
    if options.columns:
        columns = tuple(name.strip() for name in options.columns.split(","))
    spec = ExportSpec(target=options.target, columns=columns, mode=options.mode)
    with engine_of(options) as engine:
        summary = export(engine, read, spec)
    _say(summary.line())
    return 0


def _replay(options: Namespace) -> int:
    from siltstone.pipeline.jobs.replay import ReplaySpec, replay  # noqa: PLC0415  # as above

    spec = ReplaySpec(
        source=options.source,
        topic=options.topic,
        rate=settings.size("--rate", options.rate) if options.rate else 0,
        by_key=options.partitions == "key",
        exactly_once=options.exactly_once,
    )
    read = read_options(options)
    with engine_of(options) as engine:
        summary = replay(engine, read, spec)
    _say(summary.line())
    return 0


def _audit(options: Namespace) -> int:
    from siltstone.pipeline.jobs.audit import AuditSpec, audit  # noqa: PLC0415  # as above

    spec = AuditSpec(before=options.before, clean=options.clean, laws_only=options.laws_only)
    read = read_options(options)
    with engine_of(options) as engine:
        report = audit(engine, read, spec)
    if options.json:
        _write_json(options.json, report.as_json())
    for line in report.lines():
        _say(line)
    return 1 if report.faults else 0


def _plan(options: Namespace) -> int:
    from siltstone.pipeline.jobs.compaction_plan import plan_compaction  # noqa: PLC0415  # as above

    read = read_options(options)
    with engine_of(options) as engine:
        plan = plan_compaction(engine, read)
    if options.json:
        _write_json(options.json, plan.as_json())
    for line in plan.lines():
        _say(line)
    return 0


def _stream(options: Namespace) -> int:
    from siltstone.pipeline.jobs.snapshot import EVERY_RECORD, SnapshotSpec  # noqa: PLC0415  # as above
    from siltstone.pipeline.jobs.stream import stream  # noqa: PLC0415  # likewise

    spec = SnapshotSpec(
        topic=options.topic,
        target=options.target,
        key_scope=EVERY_RECORD if options.append else "partition",
        headers=options.headers,
    )
    every = settings.duration("--every", options.every) / 1000
    read = read_options(options)
    with engine_of(options) as engine:
        summary = stream(engine, read, spec, once=options.once, every_seconds=every)
    _say(summary.line())
    return 0


_RUN: Final = {
    "snapshot": _snapshot,
    "export": _export,
    "replay": _replay,
    "audit": _audit,
    "plan": _plan,
    "stream": _stream,
}


def sentence_of(error: Exception) -> str:
    """Return the sentence of a fault that may have come through Spark, as text of a traceback."""
    text = str(error)
    ours = _OF_A_WORKER.findall(text)
    if ours:
        return str(ours[-1])
    theirs = python_error_in(text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    said = theirs or f"{type(error).__name__}: {first}"
    return f"the job failed ({said}); run it again with --debug for all there is to say"


def _write_json(path: Path, facts: dict[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=2) + "\n")


def _say(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")


def _fail(sentence: str, code: int = 1) -> int:
    _say(f"pipeline: {sentence}")
    return code
