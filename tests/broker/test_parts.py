"""How the broker is put together: tasks have owners, and to look at something builds nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

BROKER = Path(__file__).parents[2] / "broker"
OWNERS = {
    "process/tasks.py",
    "net/listener.py",  # the tasks of requests, without a call in between
    "http/server.py",  # one for each client, with its patience
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every file of the broker by its name, parsed."""
    for path in sorted(BROKER.rglob("*.py")):
        yield path.relative_to(BROKER).as_posix(), ast.parse(path.read_text(), path.name)


def task_groups(tree: ast.Module) -> set[str]:
    """Return the names of task groups, which wait for their tasks."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.dump(item.context_expr)
    }


def test_tasks_are_begun_by_those_who_hold_them() -> None:
    """The loop forgets a task that nobody holds, and a stop goes on without it."""
    loose = []
    for name, tree in trees():
        groups = task_groups(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in {"create_task", "ensure_future"} or name in OWNERS:
                continue
            if not isinstance(node.func.value, ast.Name) or node.func.value.id not in groups:
                loose.append(f"{name}:{node.lineno}")

    assert loose == []


def test_properties_neither_import_nor_keep() -> None:
    """Late parts are built by a call that says so."""
    odd = []
    for name, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            imports = any(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(node))
            if "cached_property" in decorators or ("property" in decorators and imports):
                odd.append(f"{name}:{node.lineno}")

    assert odd == []


def test_nobody_is_given_a_part_later() -> None:
    """The composition root sets nothing on what it has built; the table of addresses is filled."""
    tree = ast.parse((BROKER / "server.py").read_text())
    given = [
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self"
    ]

    assert given == []
