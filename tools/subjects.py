"""Checks the subjects of commits: `area: imperative verb and what`.

``python -m tools.subjects``, as `make check` does it. Commits up to `BASE` are older than the rule.
Where there is no history (an sdist, a shallow clone) there is nothing to check.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

BASE: Final = "ff0333b22ebaaabf77d70c711bf65dcf4bafebd9"
LONGEST: Final = 72

_FORM: Final = re.compile(r"[a-z][\w./-]*(?:, [a-z][\w./-]*)*: (?P<verb>[a-z][\w-]*) \S")
_NO_VERBS: Final = frozenset(
    re.findall(
        r"\w+",
        "a all an and any as at both by each every few for from in it its less many more most no "
        "nobody none nothing of on one only some that the their there these this those to "
        "what when where which who whoever whose with",
    )
)
_ENDS_OF_OTHER_FORMS: Final = re.compile(r"(?:[^s]s|(?<!e)ed|ing)$")
_VERBS_IN_SPITE_OF_IT: Final = frozenset(
    {"alias", "always", "bias", "bring", "embed", "focus", "shed"}
)


def fault_of(subject: str) -> str:
    """Return what is wrong with a subject; an empty text if nothing is."""
    form = _FORM.match(subject)
    if len(subject) > LONGEST:
        return f"{len(subject)} characters; shorten it to {LONGEST}"
    if subject.endswith("."):
        return "ends in a period; take it away"
    if not form:
        return "has another form; write `area: verb and what`, in small letters"
    verb = form["verb"]
    if verb in _NO_VERBS or (
        _ENDS_OF_OTHER_FORMS.search(verb) and verb not in _VERBS_IN_SPITE_OF_IT
    ):
        return f"{verb!r} is no imperative; begin with what the commit does: add, keep, remove"
    return ""


def find_faults(root: Path, base: str = BASE) -> list[str]:
    """Return the faults of a checkout's commits since a base, as lines to print."""
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", f"{base}..HEAD"]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - git
    commits = [line.partition(" ") for line in listed.stdout.splitlines()]
    return [
        f"{commit} {subject}: {fault}"
        for commit, _, subject in commits
        if (fault := fault_of(subject))
    ]


if __name__ == "__main__":
    faults = find_faults(Path(__file__).parents[1])
    sys.stderr.writelines(f"commit {fault}\n" for fault in faults)
    sys.exit(bool(faults))
