"""The mapping from a client certificate's subject to a principal (Kafka: SslPrincipalMapper).

``ssl.principal.mapping.rules`` is a list of rules separated by commas: ``DEFAULT``, which uses the
whole name unchanged, or ``RULE:expression/replacement/``, with ``L`` or ``U`` after it for lower or
upper case. The first rule whose expression matches the whole name counts. Expressions run in RE2,
so that no certificate can make a match take long.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import re2

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<expression>(?:\\.|[^\\/])*)/"
    r"(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
_LONGEST: Final = 10_000


class Rule(NamedTuple):
    """One rule; a rule without an expression is DEFAULT."""

    expression: str | None
    replacement: str = ""
    case: str = ""


class NoRuleApplies(ValueError):  # noqa: N818  # what is so
    """No rule matches a name, so the client with that name is refused."""


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text; an empty text means DEFAULT.

    Raises:
        ValueError: the text is no such list, or an expression is bad. The message completes "must
            be".
    """
    rules = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ValueError(
                "a list of DEFAULT and RULE:expression/replacement/, with L or U behind"
            )
        position = match.end()
        expression = match["expression"]
        if expression is None:
            rules.append(Rule(None))
            continue
        expression = _unescape(expression)
        _check(expression, match["replacement"])
        rules.append(Rule(expression, match["replacement"], match["case"]))
    return tuple(rules) or (Rule(None),)


def _unescape(expression: str) -> str:
    r"""Return the expression with ``\/`` replaced by a slash."""
    return expression.replace(r"\/", "/")


def _check(expression: str, replacement: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        raise ValueError(f"rules with expressions of RE2, not {expression}") from error
    highest = max((int(found[2]) for found in _GROUP.finditer(replacement) if found[2]), default=0)
    if highest > compiled.groups:
        raise ValueError(f"rules whose replacements name groups that there are, not ${highest}")


def map_name(rules: Sequence[Rule], name: str) -> str:
    """Return the name of the principal for a distinguished name.

    Raises:
        NoRuleApplies: no rule matches.
    """
    for rule in rules:
        if rule.expression is None:
            return name
        match = re2.fullmatch(rule.expression, name) if len(name) <= _LONGEST else None
        if match is None:
            continue
        mapped = _GROUP.sub(partial(_replace, match), rule.replacement)
        if rule.case == "L":
            return mapped.lower()
        return mapped.upper() if rule.case == "U" else mapped
    raise NoRuleApplies(
        "no rule of ssl.principal.mapping.rules matches the name of the certificate"
    )


def _replace(match: re.Match[str], found: re.Match[str]) -> str:
    if found[1] is not None:
        return found[1]
    return match[int(found[2])] or ""
