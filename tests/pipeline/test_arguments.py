"""Arguments of a job as options of the data source."""

from pathlib import Path

import pytest

from siltstone.pipeline.command.arguments import make_parser
from siltstone.pipeline.command.cli import main, read_options
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.options import ReadOptions


def options(*more: str) -> dict[str, str]:
    """Return the options of an export with more arguments."""
    parsed = make_parser().parse_args(["export", "t", "--to", "parquet:/t", *more])
    return read_options(parsed)


def test_a_file_for_kafkas_tools_says_how_to_log_in(tmp_path: Path) -> None:
    """Its settings are the options that begin with ``kafka.``; an argument comes before them."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nssl.truststore.certificates=a\\nb\n")

    read = options("--command-config", str(file), "--option", "kafka.security.protocol=SSL")

    assert ReadOptions.parse(read).kafka == {
        "security.protocol": "SSL",
        "ssl.truststore.certificates": "a\nb",
    }


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Told in a sentence that names the option."""
    with pytest.raises(BadOption, match=r"No such file or directory.*by --command-config"):
        options("--command-config", str(tmp_path / "none"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "t", "--json", "gs://b/report.json"],
        ["plan", "t", "--json", "abfss://b/plan.json"],
    ],
)
def test_a_uri_is_no_path(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A place in object storage is wrong usage, not a folder of the scheme's name."""
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)

    assert ended.value.code == 2
    assert "is no path of a file system that this machine sees" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["snapshot --incremental", "stream"])
def test_a_table_in_object_storage(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says that such a table cannot be changed there and makes nothing."""
    monkeypatch.chdir(tmp_path)
    arguments = [
        *job.split(),
        "t",
        "--to",
        "parquet:s3://b/t",
        "--engine",
        "local",
        "--archive",
        "/none",
    ]

    assert main(arguments) == 1

    assert (
        "parquet:s3://b/t is a folder of files, which a job makes and none changes"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--every", "soon"], 2, "--every is a time such as 15m"),
        (["--jars", "{}"], 1, "has no jar; make jars"),
    ],
)
def test_a_stream_that_cannot_begin(
    more: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends before Spark begins."""
    arguments = ["stream", "t", "--to", "delta:/t"]

    assert main([*arguments, *(each.format(tmp_path) for each in more)]) == code

    assert said in capsys.readouterr().err
