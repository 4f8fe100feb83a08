"""ssl.principal.mapping.rules: the first rule that matches the whole name counts."""

import pytest

from siltstone.config.distinguished_names import NoRuleApplies, map_name, parse_rules

NAME = "CN=Ann.Lee,OU=Ops,O=Mill,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", NAME),
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "Ann.Lee"),
        ("RULE:^CN=(.*?),.*$/$1/L", "ann.lee"),
        ("RULE:^CN=(.*?),.*$/$1/U", "ANN.LEE"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Ann.Lee@Ops"),
        ("RULE:^CN=nobody$/x/, RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT", "ann.lee"),
        ("RULE:Ann/x/,DEFAULT", NAME),  # a part of the name is not the name
        (r"RULE:^CN=(.*?),.*$/$1\/ops/", "Ann.Lee/ops"),
    ],
)
def test_rules(rules: str, name: str) -> None:
    """As Kafka's SslPrincipalMapper has them."""
    assert map_name(parse_rules(rules), NAME) == name


def test_no_rule_applies() -> None:
    """Then nobody is let in by that name."""
    with pytest.raises(NoRuleApplies):
        map_name(parse_rules("RULE:^CN=nobody$/x/"), NAME)


@pytest.mark.parametrize(
    "rules",
    ["NONE", "RULE:a", "RULE:a/b", "RULE:a/b/X", "DEFAULT DEFAULT", "RULE:(/x/", "RULE:a/$1/"],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    """At the start, not when the first client comes."""
    with pytest.raises(ValueError, match=r"rules|list"):
        parse_rules(rules)


def test_no_certificate_makes_an_expression_take_long() -> None:
    """An expression that costs other engines exponential time is linear here."""
    with pytest.raises(NoRuleApplies):
        map_name(parse_rules("RULE:^(a+)+$/x/"), "a" * 5000 + "b")
