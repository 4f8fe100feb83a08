"""The prefixes of rules: those that a name begins with are found, the longest first."""

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.security.prefixes import Prefixes

TEXTS = st.text("ab\U0001f600\uffff", min_size=1, max_size=5)


@given(st.lists(st.tuples(TEXTS, st.booleans())), st.lists(TEXTS))
def test_the_prefixes_of_a_name(changes: list[tuple[str, bool]], names: list[str]) -> None:
    """As if each were compared, whatever was taken and dropped before."""
    kept: set[str] = set()
    prefixes = Prefixes()
    for text, is_dropped in changes:
        if is_dropped and text in kept:
            kept.remove(text)
            prefixes.remove(text)
        elif text not in kept:
            kept.add(text)
            prefixes.add(text)

    for name in [*names, *kept]:
        longest = prefixes.find_longest(name)
        found = [] if longest is None else list(prefixes.walk_up(longest))
        assert found == sorted(filter(name.startswith, kept), key=len, reverse=True)
