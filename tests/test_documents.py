"""References lead somewhere: links of documents, and the files and names that text mentions."""

import re
from functools import cache
from pathlib import Path

import pytest

from tools.figures import count_walks
from tools.sources import Tree

ROOT = Path(__file__).parents[1]
CODE = ("broker", "cleaner", "config", "pipeline", "protocol", "storage")
OTHERS = ("bench", "docker", "examples", "pyspark_siltstone", "siltstone", "tests", "tools")
INVENT_FILES = {
    ROOT / path
    for path in (
        "tests/test_hatch_build.py",
        "tests/tools/test_figures.py",
        "tests/tools/test_seams.py",
    )
}
CONFIGURATION = ROOT / "docs" / "configuration.md"
AS_OF_THEIR_DAY = {"CHANGELOG.md", "bench/HISTORY.md"}  # these name files as they were called then

LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
SUFFIXES = "py|pyi|pyx|pxd|pxi|h|c|md|yaml|toml|tsv|svg"
FILE = re.compile(
    rf"(?<![\w./<>-])((?:{'|'.join(('docs', *CODE, *OTHERS))})/[\w./-]*\w\.(?:{SUFFIXES}))(?![\w/])"
)
NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`(?!`)")
FILE_ENDS = tuple(f".{suffix}" for suffix in SUFFIXES.split("|"))
BARE = re.compile(r"(?<!`)`(\w+\.(?:py|pyx|pxd|h|c|md)|[A-Za-z]+_\w*[^\W_])(?:\(\))?`(?!`)")
QUOTED = re.compile(r"`[^`\n]*`")
WORD = re.compile(r"\w+")
CLASS = re.compile(r"^(?:cdef )?class (\w+)(?:\((.*?)\))?:\n((?:[ \t].*\n|\n)*)", re.MULTILINE)
SECTION = re.compile(r"^(?!.*\bRFC \d).*§.*$", re.MULTILINE)


def documents() -> list[Path]:
    """Return every page of the project."""
    folders = ("docs", *CODE, *OTHERS)
    pages = [page for folder in folders for page in (ROOT / folder).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *pages])


@cache
def sources() -> dict[Path, str]:
    """Return every file of code and its text; links show the packages a second time."""
    return {
        path: path.read_text()
        for folder in (*CODE, *OTHERS)
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".pyx", ".pxd", ".h", ".c"} and path == path.resolve()
    }


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return frozenset(
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(
            " ", "-"
        )
        for heading in headings
    )


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_pages(page: Path) -> None:
    """A link leads to a file of this repository, and to a heading in it if it names one."""
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)

    assert broken == []


def test_the_index_has_each_page_once() -> None:
    """A question in docs/README.md leads to every page of docs, and to no page twice."""
    index = ROOT / "docs" / "README.md"
    links = sorted(
        (index.parent / target).resolve()
        for target in LINK.findall(index.read_text())
        if not target.startswith("../")
    )

    assert links == sorted(page for page in index.parent.rglob("*.md") if page != index)


def test_the_list_of_supports_has_each_module_once() -> None:
    """A helper of tests is found by its subject: tests/support/README.md names every module."""
    index = ROOT / "tests" / "support" / "README.md"
    named = [
        index.parent / name
        for name in re.findall(r"^\| `([\w/]+\.\w+)` \|", index.read_text(), re.MULTILINE)
    ]
    modules = [path for path in index.parent.rglob("*") if path.suffix in {".py", ".c"}]

    assert sorted(named) == sorted(modules)


def test_a_release_has_one_page_of_changes() -> None:
    """Users read what a release brings in at most 80 lines; the diary of changes is `git log`."""
    releases = re.split(r"^## .*\n", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]

    assert releases
    assert max(release.count("\n") for release in releases) <= 80


def test_messages_that_the_page_explains() -> None:
    """A search of the page for a line of the log finds it: the text is that of the code."""
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    section = page.partition("## Messages of the log")[2].partition("\n## ")[0]
    texts = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    code = "".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for name in ("broker", "cleaner", "protocol", "storage")
        for path in (ROOT / name).rglob("*.py")
    )

    assert len(texts) > 20
    assert [text for text in texts if text not in code] == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_pages_name(page: Path) -> None:
    """A path that begins with a folder of the root exists, but in pages about another day."""
    is_diary = page.relative_to(ROOT).as_posix() in AS_OF_THEIR_DAY
    assert (
        is_diary
        or [path for path in FILE.findall(page.read_text()) if not (ROOT / path).exists()] == []
    )


def test_files_that_code_names() -> None:
    """The same for code, its comments and docstrings."""
    broken = [
        f"{source.relative_to(ROOT)}: {path}"
        for source, text in sources().items()
        if source not in INVENT_FILES
        for path in FILE.findall(text)
        if not (ROOT / path).exists()
    ]

    assert broken == []


def test_sections_are_of_standards() -> None:
    """A paragraph sign counts the sections of an RFC: nothing else that text cites has them."""
    texts = {page: page.read_text() for page in documents()} | sources()
    broken = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path, text in texts.items()
        if path != Path(__file__)
        for line in SECTION.findall(text)
    ]

    assert broken == []


@cache
def members() -> dict[str, set[str]]:
    """Return the words inside of each module and class; a module goes by its last name.

    What stands in backquotes does not count. A base of a class has a ``<`` in front.
    """
    found: dict[str, set[str]] = {}
    for path, text in sources().items():
        code = QUOTED.sub("", text)
        name = path.parent.name if path.stem == "__init__" else path.stem
        found.setdefault(name, set()).update(WORD.findall(code))
        for kind, bases, body in CLASS.findall(code):
            own = found.setdefault(kind, set())
            own.update(WORD.findall(body), (f"<{base}" for base in WORD.findall(bases)))
    return found


def has(owner: str, member: str) -> bool:
    """Tell whether a module or class, or a base of it, has a member."""
    inside = members().get(owner, set())
    return member in inside or any(
        has(name[1:], member) for name in inside if name[:1] == "<" and name[1:] != owner
    )


def is_broken(name: str) -> bool:
    """Tell whether a dotted name begins with what is ours and leads nowhere."""
    parts = name.removeprefix("siltstone.").split(".")
    modules = 0
    if parts[0] in {*CODE, *OTHERS}:
        while modules < len(parts) and is_module(parts[: modules + 1]):
            modules += 1
    rest = parts[max(0, modules - 1) :]
    return rest[0] in members() and not all(map(has, rest, rest[1:]))


def is_module(parts: list[str]) -> bool:
    """Tell whether a name is that of a folder or of a file of code."""
    path = ROOT.joinpath(*parts)
    ends = (".py", ".pyx", ".pxd")
    return path.is_dir() or any(path.with_name(f"{path.name}{end}").exists() for end in ends)


def test_files_of_walks() -> None:
    """Each file that a walk of the architecture lists exists."""
    walks = list(count_walks(Tree(ROOT, CODE)))

    assert len(walks) >= 5
    assert [name for walk in walks for name in walk.names if not is_module(name.split("/"))] == []


def test_names_that_code_mentions() -> None:
    """A dotted name in backquotes that begins with a package, module or class of ours exists."""
    settings = set(NAME.findall(CONFIGURATION.read_text()))
    broken = [
        f"{source.relative_to(ROOT)}: {name}"
        for source, text in sources().items()
        for name in NAME.findall(text)
        if name not in settings and not name.endswith(FILE_ENDS) and is_broken(name)
    ]

    assert broken == []


def test_bare_names_that_code_mentions() -> None:
    """A name with an underscore, or a file, that stands in backquotes is somewhere in the code."""
    words = {word for text in sources().values() for word in WORD.findall(QUOTED.sub("", text))}
    files = {path.name for path in (*sources(), *documents())}
    broken = [
        f"{source.relative_to(ROOT)}: {name}"
        for source, text in sources().items()
        for name in BARE.findall(text)
        if (name not in files if "." in name else name not in words)
    ]

    assert broken == []
