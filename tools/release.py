"""Does what a tag does, stage by stage, but publish; ``make release-check``.

Stages that have passed are noted by commit in .cache/release, so that a run goes on where the one
before ended. At the end it lists what could not be tried on this machine. `notes` prints the notes
of a release from CHANGELOG.md, `wheel` builds the wheel of this Python for old systems, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import hatch_build
from siltstone import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
NOTED: Final = ROOT / ".cache" / "release"
GLIBC: Final = "2.28"
"""Of the oldest system that a wheel runs on: Debian 10, RHEL 8, Ubuntu 18.10."""
SUITES: Final = ("bookworm", "trixie", "sid")
"""Suites of Debian, with Python 3.11, 3.13 and 3.14: each builds a wheel and tries it."""
_EMULATED: Final = {(3, 11): "bookworm", (3, 13): "trixie", (3, 14): "sid"}
_HANDLER: Final = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
_CORE_TESTS: Final = "tests/protocol/core tests/protocol/records"
_NOWHERE: Final = "3.12"
_EXAMPLE: Final = ROOT / "examples" / "testing"
MOST_KIB: Final = 45_000_000 >> 10
"""Of an installation with all that it needs, without Spark, as `du` counts it."""
_LEAST: Final = "ca-certificates,python3"
_PACKAGES: Final = {
    "least": _LEAST,
    "bare": f"{_LEAST},python3-venv",
    "builder": f"{_LEAST},python3-venv,git,make,python3-dev",
    "arm64": f"{_LEAST},python3-venv,python3-dev",
}
UNTRIED: Final = (  # docs/releasing.md has them, too
    "wheels and images for aarch64: only the workflow has such a processor, and builds on it",
    "systems older than Debian 12: auditwheel reads which glibc the symbols of a wheel need",
    "musllinux: google-re2 has no such wheel; Alpine builds from source",
    "publishing: the index, its attestations and the image need the repository's own identity",
)
_WORKFLOWS: Final = (
    ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
    ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ("vendor.dependabot", "dependabot.yml"),
    ("vendor.github-workflows", "workflows/*.yml"),
)
_TRY = r"""
set -eu  # $1 is a Python, $2 a folder for all that is made, $3 the wheel, $4 the example's tests
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export SILTSTONE_LISTENERS=PLAINTEXT://127.0.0.1:29092 SILTSTONE_HTTP_LISTENER=127.0.0.1:29464
rm -rf "$2" && "$1" -m venv "$2" && cd "$2" && export PATH="$2/bin:$PATH"
empty=$(du -sk . | cut -f1)
began=$(date +%s%3N)
pip install --no-cache-dir "$3"
installed=$(date +%s%3N)
siltstone serve --set log.dirs="$2/data" --ready-file "$2/ready" >log 2>&1 &
broker=$!
trap 'kill "$broker"' EXIT
for _ in $(seq 100); do [ -s ready ] && break; sleep 0.1; done
siltstone topics create hello --partitions 2
echo 'key:value' | siltstone produce hello -k :
acknowledged=$(date +%s%3N)
siltstone version
echo "pip install $((installed - began)) ms, to the first acknowledgement" \
  "$((acknowledged - began)) ms, installed $(($(du -sk --exclude data . | cut -f1) - empty)) KiB"
[ "$(siltstone consume hello --format '%k %v\n')" = 'key value' ]
kill "$broker" && wait "$broker"
trap - EXIT
pip install aiokafka confluent-kafka kafka-python pytest pytest-asyncio
cp -r "$4" testing && cd testing && python -m pytest -q --disable-warnings
"""


_TRY_EMULATED: Final = rf"""
set -eu
cd /srv/siltstone
if ! cmp --silent tests/requirements.lock /root/lock; then
  rm -rf /root/emulated && python3 -m venv /root/emulated
  /root/emulated/bin/pip install --quiet --disable-pip-version-check \
    --requirement docker/requirements.lock
  # The tests' tools, by the versions of the lock: no linters, no dataframes.
  grep -oE '^(pytest|hypothesis|kio|lz4|zstandard|python-snappy|aiokafka|confluent-|kafka-)[^ ]*' \
    tests/requirements.lock |
    xargs /root/emulated/bin/pip install --quiet --disable-pip-version-check
  cp tests/requirements.lock /root/lock
fi
/root/emulated/bin/python -m pytest -q -p no:cacheprovider --timeout 900 \
  -m 'not (slow or java or spark or connector or alone or client)' {_CORE_TESTS}
"""


class FailedError(Exception):
    """A stage has failed; the text says how."""


class UntriedError(Exception):
    """A stage lacks what it needs on this machine; the text says what."""


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version in the text of CHANGELOG.md, without its heading.

    Raises:
        FailedError: The changelog has no such section, or it is empty.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.startswith(f"[{version}]") and text.strip():
            return text.strip() + "\n"
    raise FailedError(f"CHANGELOG.md has no section for {version}: write it before the tag")


def check_tag(tag: str) -> None:
    """Compare a tag with the version of the code.

    Raises:
        FailedError: They differ.
    """
    if tag != f"v{VERSION}":
        raise FailedError(f"the tag is {tag}, the code is v{VERSION}: change siltstone/__init__.py")


def check_size(told: str) -> None:
    """Compare what a try of a wheel says to have installed with `MOST_KIB`.

    Raises:
        FailedError: It is more, or it is not said.
    """
    installed = re.search(r"installed (\d+) KiB", told)
    if installed is None or int(installed[1]) > MOST_KIB:
        raise FailedError(
            f"an installation may have {MOST_KIB} KiB: look with du -k at what has grown, or take "
            f"another library (docs/decisions/0012-the-codecs.md)\n{told}"
        )


def build_wheel(tree: Path, folder: Path) -> Path:
    """Build the wheel of a tree for this Python and any Linux with glibc `GLIBC`; return it.

    Raises:
        FailedError: It does not build, or needs a newer system than its name says.
    """
    machine = platform.machine()
    zig = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC}"
    zig += " -idirafter /usr/include"  # where Debian's Python has a part of its headers
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    environment = {"CC": f"{zig} {hatch_build.ZIG_FLAGS}", "SILTSTONE_PLATFORM": tag}
    folder.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
         tree, **environment)  # fmt: skip
    (wheel,) = folder.glob(f"*-{tag}.whl")
    told = _run([sys.executable, "-m", "auditwheel", "show", str(wheel)], tree)
    allowed = re.search(r'platform tag: "(manylinux_2_(\d+)_\w+)"', " ".join(told.split()))
    if allowed is None or int(allowed[2]) > int(GLIBC.partition(".")[2]):
        raise FailedError(f"{wheel.name} needs a newer system than its name says: {told}")
    return wheel


def workflows() -> None:
    """Workflows, forms and the update bot, each judged by its own tool."""
    _run([_find("actionlint")], ROOT)
    _run([_find("zizmor"), "--offline", "--quiet", ".github"], ROOT)
    for schema, pattern in _WORKFLOWS:
        files = [str(path) for path in sorted((ROOT / ".github").glob(pattern))]
        _run([_find("check-jsonschema"), "--builtin-schema", schema, *files], ROOT)


def notes() -> None:
    """The notes of the release, from the changelog."""
    DIST.mkdir(exist_ok=True)
    text = release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), VERSION)
    (DIST / "notes.md").write_text(text, encoding="utf-8")


def source() -> None:
    """The source archive, twice from two clones: the same bytes."""
    with _two_clones() as clones:
        built = [_build_source(clone, clone.parent / f"dist-{clone.name}") for clone in clones]
        _keep_if_equal(built)


def wheel() -> None:
    """The wheel, twice from two clones: the same bytes, for old systems, too."""
    with _two_clones() as clones:
        _keep_if_equal(
            [build_wheel(clone, clone.parent / f"dist-{clone.name}") for clone in clones]
        )


def roots() -> None:
    """A wheel of each Debian, built there by Zig and tried in a root without a compiler."""
    DIST.mkdir(exist_ok=True)
    for suite in SUITES:
        builder, bare = (_make_root(suite, kind) for kind in ("builder", "bare"))
        clone = builder.folder / "srv" / "siltstone"
        shutil.rmtree(clone, ignore_errors=True)
        _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], ROOT)
        builder.run("make", "--directory=/srv/siltstone", "wheel")
        (wheel,) = (clone / "dist").glob("*.whl")
        shutil.copy(wheel, DIST)
        srv = bare.folder / "srv"
        shutil.rmtree(srv, ignore_errors=True)
        shutil.copytree(_EXAMPLE, srv / "testing")
        shutil.copy(wheel, srv)
        _tell(wheel, bare.run(*_try("python3", "/root/try", f"/srv/{wheel.name}", "/srv/testing")))


def without_debian() -> None:
    """A wheel of Python 3.12, which no Debian has, tried in an environment of this machine."""
    python = _find_python(_NOWHERE)
    _run(["make", "wheel", f"PYTHON={python}"], ROOT)
    (wheel,) = DIST.glob(f"*-cp{_NOWHERE.replace('.', '')}-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        _tell(wheel, _run(_try(python, f"{scratch}/try", wheel, _EXAMPLE), ROOT))


def aarch64() -> None:
    """The core's tests on code compiled for aarch64, in a root of Debian that qemu-user runs."""
    suite = _EMULATED.get(sys.version_info[:2])
    if suite is None or not _HANDLER.exists():
        raise UntriedError(
            "aarch64: it takes Debian's qemu-user-static, and a Python of Debian's for this make"
        )
    root = _make_root(suite, "arm64")
    clone = root.folder / "srv" / "siltstone"
    shutil.rmtree(clone, ignore_errors=True)
    _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], ROOT)
    facts = "_sysconfigdata__aarch64-linux-gnu"
    (found,) = root.folder.glob(f"usr/lib/python3.*/{facts}.py")
    headers = root.folder / "usr" / "include"
    zig = (
        f"{sys.executable} -m ziglang cc -target aarch64-linux-gnu.{GLIBC} {hatch_build.ZIG_FLAGS}"
    )
    with tempfile.TemporaryDirectory() as folder:  # facts of that Python, for this one's build
        shutil.copy(found, folder)
        _run(
            [sys.executable, "hatch_build.py"], clone, PYTHONPATH=folder,
            CC=f"{zig} -idirafter {headers / found.parent.name} -idirafter {headers}",
            _PYTHON_SYSCONFIGDATA_NAME=facts, _PYTHON_HOST_PLATFORM="linux-aarch64",
        )  # fmt: skip
    sys.stdout.write(root.run("sh", "-c", _TRY_EMULATED))


def _try(*arguments: str | Path) -> list[str]:
    return ["sh", "-c", _TRY, "try", *map(str, arguments)]


def _tell(wheel: Path, told: str) -> None:
    sys.stdout.write(f"{wheel.name}:\n{told}")
    check_size(told)


def _find_python(version: str) -> str:
    """Return a Python of this machine: on the PATH, of pyenv or of uv.

    Raises:
        UntriedError: It has none.
    """
    name = f"python{version}"
    kept = (".pyenv/versions", ".local/share/uv/python")
    folders = [folder for each in kept for folder in Path.home().glob(f"{each}/*{version}*/bin")]
    for found in [shutil.which(name), *(str(folder / name) for folder in sorted(folders))]:
        if found and not subprocess.run([found, "-V"], capture_output=True, check=False).returncode:  # noqa: S603 - a Python
            return found
    raise UntriedError(f"Python {version}: this machine has none; the workflow tries it")


def readme() -> None:
    """README's commands, typed in a new root that has only Python: `tools/walk.py`."""
    least = _make_root(SUITES[1], "least")
    fresh = least._replace(folder=least.folder.with_name("walked"))
    shutil.rmtree(fresh.folder, ignore_errors=True)
    _run(["cp", "--archive", "--reflink=auto", str(least.folder), str(fresh.folder)], ROOT)
    clone = fresh.folder / "srv" / "siltstone"
    _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], ROOT)
    sys.stdout.write(fresh.run("sh", "-c", "cd /srv/siltstone && exec python3 -m tools.walk"))
    shutil.rmtree(fresh.folder)


def image() -> None:
    """The image, built without an engine and run."""
    _run(["make", "image-check"], ROOT)


STAGES: Final = (workflows, notes, source, wheel, roots, without_debian, aarch64, readme, image)


def check(stages: Sequence[Callable[[], None]]) -> None:
    """Run the stages that have not passed at this commit, and say what was not tried."""
    commit = _run(["git", "rev-parse", "HEAD"], ROOT).strip()
    if _run(["git", "status", "--porcelain"], ROOT):
        raise FailedError("the tree has changes: commit them, a release is made of a commit")
    noted = NOTED / f"{commit}.json"
    NOTED.mkdir(parents=True, exist_ok=True)
    passed = json.loads(noted.read_text()) if noted.exists() else {}
    untried = []
    for stage in stages:
        if stage.__name__ in passed:
            sys.stdout.write(f"{stage.__name__}: passed before, {passed[stage.__name__]} s\n")
            continue
        sys.stdout.write(f"{stage.__name__}: {stage.__doc__}\n")
        sys.stdout.flush()
        began = time.monotonic()
        try:
            stage()
        except UntriedError as reason:
            untried.append(str(reason))
            continue
        passed[stage.__name__] = round(time.monotonic() - began)
        noted.write_text(json.dumps(passed))
        sys.stdout.write(f"{stage.__name__}: passed, {passed[stage.__name__]} s\n")
    sys.stdout.writelines(f"not tried: {each}\n" for each in (*untried, *UNTRIED))


class _Root(NamedTuple):
    """A root of Debian, in which commands run by chroot."""

    suite: str
    folder: Path
    packages: str
    architecture: str

    def run(self, *command: str) -> str:
        script = str(ROOT / "tests" / "root.sh")
        words = [script, self.suite, str(self.folder), self.packages, *command]
        return _run(words, ROOT, DEBIAN_ARCHITECTURE=self.architecture)


def _make_root(suite: str, kind: str) -> _Root:
    """Return a root of a kind of `_PACKAGES`; it is made once and kept."""
    cache = Path(os.environ.get("SILTSTONE_CACHE", ROOT / ".cache"))
    architecture = kind if kind == "arm64" else ""  # that of this machine
    root = _Root(suite, cache / f"{kind}-{suite}", _PACKAGES[kind], architecture)
    root.run()
    return root


def _build_source(tree: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], tree)
    (archive,) = folder.glob("*.tar.gz")
    return archive


@contextmanager
def _two_clones() -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory() as scratch:
        clones = [Path(scratch) / name for name in ("one", "another")]
        for clone in clones:
            _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], ROOT)
        yield clones


def _keep_if_equal(built: Sequence[Path]) -> None:
    first, second = (hashlib.sha256(path.read_bytes()).hexdigest() for path in built)
    if first != second:
        raise FailedError(f"two builds of {built[0].name} differ")
    DIST.mkdir(exist_ok=True)
    shutil.copy(built[0], DIST)
    sys.stdout.write(f"dist/{built[0].name} {built[0].stat().st_size} bytes, sha256 {first}\n")


def _find(program: str) -> str:
    """Return the path of a tool beside this interpreter, or on the PATH.

    Raises:
        FailedError: It is not installed.
    """
    beside = Path(sys.prefix) / "bin" / program
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        raise FailedError(f"{program} is missing: install it, then go on with make release-check")
    return found


def _run(command: Sequence[str], folder: Path, **environment: str) -> str:
    """Return what a command prints.

    Raises:
        FailedError: It ended with an error; the text has the end of what it printed.
    """
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=folder, capture_output=True, text=True, check=False,
        env={**_without_make(os.environ), **environment},
    )  # fmt: skip
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise FailedError(f"{' '.join(map(str, command[:4]))[:80]} … failed in {folder}:\n{end}")
    return done.stdout


def _without_make(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what a make passes on: its ARGS are for this program."""
    return {name: value for name, value in environment.items() if not name.startswith("MAKE")}


def main(arguments: Sequence[str]) -> int:
    """Run a part of a release, or check all of it."""
    parser = argparse.ArgumentParser(prog="python -m tools.release")
    parser.add_argument("part", choices=["check", "notes", "sdist", "wheel"])
    parser.add_argument("--tag", help="with notes: the tag, which must be that of the code")
    parser.add_argument("--stages", nargs="*", help=" ".join(each.__name__ for each in STAGES))
    options = parser.parse_args(arguments)
    try:
        if options.part == "notes":
            if options.tag:
                check_tag(options.tag)
            notes()
        elif options.part == "sdist":
            _build_source(ROOT, DIST)
        elif options.part == "wheel":
            build_wheel(ROOT, DIST)
        else:
            check(
                [each for each in STAGES if not options.stages or each.__name__ in options.stages]
            )
    except FailedError as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
