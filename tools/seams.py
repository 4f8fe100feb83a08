"""The seams: one place each for the disk, the clocks, randomness, threads and the network.

All that is not deterministic is called in one place, so that a test or a simulator can replace it.
`SEAMS` says which modules of the daemon may make which calls; other places are counted.
"""

from __future__ import annotations

import ast
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.sources import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePosixPath

    from tools.sources import Tree

DAEMON: Final = ("broker", "storage", "cleaner", "protocol", "config")
NO_DAEMON: Final = "broker/commands"


class Seam(NamedTuple):
    """Which modules may call something not deterministic, and by which names."""

    name: str
    modules: Sequence[str]
    """The files and folders that may ask."""
    names: Sequence[str]
    """Names of Python, from the top: a module stands for all in it."""
    methods: Sequence[str] = ()
    """Names of methods that only such an object has; a function of ours may have the same."""
    in_c: Sequence[str] = ()
    """Functions of C."""
    outside: Mapping[str, str] = MappingProxyType({})
    """Files that need no seam, each with the reason."""


def _of_os(names: str) -> tuple[str, ...]:
    return tuple(f"os.{name}" for name in names.split())


SEAMS: Final = (
    Seam(
        "disk",
        ("storage/files/disk", "storage/files/_disk"),
        (
            *_of_os(
                "access chmod chown close copy_file_range dup fchmod fchown fdatasync fdopen fstat"
                " fstatvfs fsync ftruncate link listdir lseek lstat makedirs memfd_create mkdir"
                " open posix_fadvise posix_fallocate pread preadv pwrite pwritev read readlink"
                " readv remove removedirs rename replace rmdir scandir stat statvfs"
                " symlink sync sync_file_range truncate unlink utime walk write writev"
            ),
            *_of_os("path.exists path.getmtime path.getsize path.isdir path.isfile path.islink"),
            *_of_os("path.realpath path.samefile"),
            *("open", "io.open", "fcntl", "shutil", "tempfile"),
            *("pathlib.Path.cwd", "pathlib.Path.home"),
        ),
        (
            *("chmod", "exists", "glob", "hardlink_to", "is_dir", "is_file", "is_mount"),
            *("is_symlink", "iterdir", "lchmod", "lstat", "mkdir", "read_bytes", "read_text"),
            *("readlink", "rglob", "rmdir", "samefile", "stat", "symlink_to", "unlink"),
            *("write_bytes", "write_text", "open()"),
        ),
        (
            *("pread", "preadv", "preadv2", "pwrite", "pwritev", "fallocate", "fsync"),
            *("ftruncate", "sync_file_range"),
        ),
        {
            "broker/__main__.py": "the entry of the commands, which are no part of a daemon",
            "broker/http/site/routes.py": "reads a file of the package, as an import does",
            "broker/process/sockets.py": "its descriptors are sockets and pipes",
            "config/known.py": "reads a file of the package, as an import does",
            "config/sources.py": "config knows no storage; a broker is given settings, no file",
        },
    ),
    Seam("memory", ("broker/net/buffers",), ("mmap",)),
    Seam(
        "clock",
        ("storage/clock",),
        (
            *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns"),
            *("time.perf_counter", "time.perf_counter_ns", "time.process_time"),
            *("time.thread_time", "time.clock_gettime", "time.sleep", "datetime.datetime.now"),
            *("datetime.datetime.utcnow", "datetime.date.today"),
        ),
        in_c=("clock_gettime", "gettimeofday"),
    ),
    Seam(
        "randomness",
        ("storage/randomness",),
        ("random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom"),
        in_c=("getrandom", "rand"),
    ),
    Seam(
        "threads",
        ("storage/threads", "storage/log_lock"),
        (
            *("threading", "_thread", "queue", "concurrent.futures", "multiprocessing"),
            *("subprocess", "asyncio.to_thread"),
            *_of_os("fork nice posix_spawn sched_setaffinity sched_setscheduler setpriority"),
        ),
        ("run_in_executor", "set_default_executor"),
        ("pthread_create", "PyThread_allocate_lock", "PyThread_acquire_lock"),
    ),
    Seam(
        "network",
        (
            *("broker/process/sockets", "broker/process/_sockets", "broker/net/sending/_sending"),
            *("broker/net/tls/sockets", "config/machine"),
        ),
        (
            *("socket", "ssl", "select", "selectors", "asyncio.start_server"),
            *("asyncio.open_connection", "asyncio.open_unix_connection"),
            *("asyncio.start_unix_server", "urllib.request", "http.client", "os.sendfile"),
            *_of_os("eventfd eventfd_read eventfd_write pipe pipe2"),
        ),
        (
            *("sock_accept", "sock_recv", "sock_recv_into", "sock_sendall", "sock_connect"),
            *("create_connection", "create_server", "create_unix_server", "getaddrinfo"),
            *("getnameinfo", "wrap_socket", "start_tls"),
        ),
        ("recv", "send", "sendfile", "poll", "epoll_wait", "writev"),
    ),
)
"""A loop's own time is the loop's: `loop.time()` counts as no clock."""

_ASKS_NOTHING: Final = re.compile(
    r".*\.(?:[A-Z][A-Z0-9_]+|\w+Error|Empty|Full|gaierror)"
    r"|ssl\.(?:TLSVersion\..*|SSLContext|create_default_context)|socket\.inet_(?:pton|ntop)"
)
"""Constants and exceptions, and what computes only; an annotation is left out before."""


_DECLARES: Final = re.compile(
    r"\s*(?:(?:from|c?import|#include)\b|(?:ssize_t|int|long|void ?\*?) \w+\([^{]*$)"
)
"""An import, or C that is declared."""


class Place(NamedTuple):
    """A place with such a call."""

    seam: str
    name: str
    where: str


def find_places(tree: Tree) -> Iterator[Place]:
    """Yield every place of the daemon that bypasses a seam."""
    for path in tree.below(*DAEMON, without=NO_DAEMON):
        seams = [
            seam
            for seam in SEAMS
            if not _is_in(path, seam.modules) and str(path) not in seam.outside
        ]
        if path.suffix == ".py":
            for name, line in _Asked(path, tree.product[path]).found:
                for seam in seams:
                    if _is_of(name, seam):
                        yield Place(seam.name, name, f"{path}:{line}")
        elif path.suffix in {".pyx", ".pxd", ".h"}:
            yield from _in_c(path, tree.text(path), seams)


def _is_in(path: PurePosixPath, modules: Sequence[str]) -> bool:
    name = str(path.with_suffix(""))
    return any(name == each or name.startswith(f"{each}/") for each in modules)


def _is_of(name: str, seam: Seam) -> bool:
    if name.startswith("."):
        return name[1:] in seam.methods
    return not _ASKS_NOTHING.fullmatch(name) and any(
        name == each or name.startswith(f"{each}.") for each in seam.names
    )


class _Asked(ast.NodeVisitor):
    """The names from outside that the code of a module uses, and methods with a dot in front."""

    def __init__(self, path: PurePosixPath, module: ast.Module) -> None:
        self.found: list[tuple[str, int]] = []
        self._path = path
        self._imported = {
            (each.asname or each.name.partition(".")[0]): (
                f"{node.module}.{each.name}"
                if isinstance(node, ast.ImportFrom)
                else each.name
                if each.asname
                else each.name.partition(".")[0]
            )
            for node in ast.walk(module)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for each in node.names
        }
        self.visit(module)

    def visit_arg(self, node: ast.arg) -> None:
        """Leave out the annotation."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # as ast names it
        """Leave out the annotation."""
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Leave out the type of the result."""
        for each in (*node.decorator_list, node.args, *node.body):
            self.visit(each)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # as ast names it

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Leave out the type of the exception."""
        for each in node.body:
            self.visit(each)

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name that is imported, and `open`."""
        is_used = isinstance(node.ctx, ast.Load)
        if is_used and (node.id in self._imported or node.id == "open"):
            self.found.append((self._imported.get(node.id, node.id), node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note a name of a module that is imported; of another object, a method."""
        names = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            names.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self._imported:
            names.append(self._imported[value.id])
            self.found.append((".".join(reversed(names)), node.lineno))
            return
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Note a method that is called on an object, except a module or a segment's `FileSet`."""
        function = node.func
        self.generic_visit(node)
        if isinstance(function, ast.Attribute):
            root = function.value
            is_ours = isinstance(root, ast.Attribute) and root.attr == "files"
            if not is_ours and not (isinstance(root, ast.Name) and root.id in self._imported):
                name = "open()" if _opens_a_path(node) else function.attr
                self.found.append((f".{name}", node.lineno))


def _opens_a_path(call: ast.Call) -> bool:
    """Tell a path's `open` from others by its mode."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else None
    is_mode = isinstance(mode, str) and re.fullmatch(r"[rwxab+t]{1,3}", mode)
    return ast.unparse(call.func).endswith(".open") and bool(is_mode)


def _in_c(path: PurePosixPath, text: str, seams: Sequence[Seam]) -> Iterator[Place]:
    """Yield the calls of Python's and of C's functions in Cython and C."""
    lines = code_of(path, text).splitlines()
    for seam in seams:
        python = "|".join(
            re.escape(name) if "." in name else rf"{name}\.\w+"
            for name in seam.names
            if name != "open"
        )
        calls = re.compile(
            rf"(?<![\w.>])(?<!def )(?:(?:{python})\b|(?:{'|'.join((*seam.in_c, '!'))})(?=\())"
        )
        for number, line in enumerate(lines, 1):
            if not _DECLARES.match(line):
                for match in calls.finditer(line):
                    yield Place(seam.name, match[0], f"{path}:{number}")
