"""The arguments of ``python -m siltstone.pipeline``."""

import argparse
from pathlib import Path


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all jobs."""
    parser = argparse.ArgumentParser(
        prog="pipeline", description="Topics as tables, straight from the segments of their logs."
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB", dest="job")
    _add_snapshot(jobs)
    _add_export(jobs)
    _add_replay(jobs)
    _add_audit(jobs)
    _add_plan(jobs)
    _add_stream(jobs)
    return parser


Jobs = argparse._SubParsersAction  # noqa: SLF001  # the only name that argparse has for it


def _add_snapshot(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("snapshot", help="write the last value of every key as a table")
    parser.add_argument("topic")
    _add_target(parser)
    parser.add_argument(
        "--incremental", action="store_true", help="read only what has come since the table's state"
    )
    parser.add_argument(
        "--key-scope",
        choices=("partition", "topic"),
        default="partition",
        help="topic: one row a key although it is in several partitions, the newest by time",
    )
    parser.add_argument("--plan", choices=("auto", "partition", "shuffle"), default="auto")
    parser.add_argument("--headers", action="store_true", help="keep the headers")
    _add_reading(parser)
    _add_engine(parser)


def _add_export(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("export", help="write a range of a topic as a table")
    parser.add_argument("topic")
    _add_target(parser)
    parser.add_argument("--from", dest="time_from", metavar="TIME", help="records from then on")
    parser.add_argument("--to-time", dest="time_to", metavar="TIME", help="records before then")
    parser.add_argument("--columns", metavar="NAME,…", help="columns of the topic")
    parser.add_argument("--mode", choices=("error", "append", "overwrite"), default="error")
    _add_reading(parser)
    _add_engine(parser)


def _add_replay(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("replay", help="write a table or a range of a topic into a topic")
    parser.add_argument(
        "source", help="parquet:DIR, delta:DIR, iceberg:WAREHOUSE/TABLE, or a topic"
    )
    parser.add_argument("--topic", required=True, help="where to")
    parser.add_argument("--rate", metavar="BYTES", help="a second at most, such as 50MB")
    parser.add_argument(
        "--partitions", choices=("same", "key"), default="same", help="key: by the hash of the key"
    )
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help="transactions, with the progress in them, from which a later run goes on",
    )
    _add_reading(parser)
    _add_engine(parser)


def _add_audit(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("audit", help="check segments, indexes and the cleaner's laws")
    parser.add_argument("topic", nargs="?")
    parser.add_argument("--all", action="store_true", help="every topic")
    parser.add_argument("--before", default="", metavar="DIR", help="an archive of earlier")
    parser.add_argument(
        "--clean", action="store_true", help="have the broker clean, and compare before and after"
    )
    parser.add_argument("--laws-only", action="store_true", help="leave the files out")
    parser.add_argument("--json", type=_path, metavar="FILE", help="write the report there")
    _add_reading(parser)
    _add_engine(parser)


def _add_plan(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("plan", help="say what compaction would leave and what it needs")
    parser.add_argument("topic", nargs="?")
    parser.add_argument("--all", action="store_true", help="every topic")
    parser.add_argument("--json", type=_path, metavar="FILE", help="write the figures there")
    _add_reading(parser)
    _add_engine(parser)


def _add_stream(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    parser = jobs.add_parser("stream", help="keep a table of the last values up to date")
    parser.add_argument("topic")
    _add_target(parser)
    parser.add_argument("--once", action="store_true", help="read up to the present end, then end")
    parser.add_argument(
        "--append", action="store_true", help="keep every record, not the last of each key"
    )
    parser.add_argument("--every", default="10s", metavar="TIME", help="look for news so often")
    parser.add_argument("--headers", action="store_true", help="keep the headers")
    _add_reading(parser)
    _add_engine(parser)


def _path(text: str) -> Path:
    """Return a path of this machine's file systems.

    Raises:
        ArgumentTypeError: It is a URI, which as a path would be created as a folder here.
    """
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text} is no path of a file system that this machine sees"
        )
    return Path(text)


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        "--out",
        dest="target",
        required=True,
        metavar="TABLE",
        help="parquet:DIR, delta:DIR or URI, iceberg:WAREHOUSE/TABLE or CATALOGUE.SPACE.TABLE",
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where the log is")
    group.add_argument("--bootstrap", metavar="HOST:PORT", help="a Kafka broker")
    group.add_argument("--data", metavar="DIR", help="the broker's first log directory, seen here")
    group.add_argument("--control", metavar="HOST:PORT", help="the broker's http.listener")
    group.add_argument("--archive", metavar="DIR", help="a log directory that no broker serves")
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="the settings of a Kafka client, as Kafka's tools read them: what is secret is in no "
        "list of processes",
    )
    group.add_argument("--transport", choices=("auto", "pinned", "fetch", "archive"))
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any option of the data source, such as startingOffsets=earliest; repeatable",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where the work is done")
    group.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="local: processes of this machine, without Java",
    )
    group.add_argument(
        "--master", help="of Spark, or sc://HOST:PORT; spark-submit sets it by itself"
    )
    group.add_argument(
        "--jars", default="", metavar="DIR", help="of packages of Spark, such as Delta's"
    )
    group.add_argument("--cores", type=int, help="processes of the local engine")
    group.add_argument("--debug", action="store_true", help="show whole stack traces")
