"""The strings of ``sasl.jaas.config``: a login module, a flag and options (Kafka: JaasConfig).

Only Kafka's modules of PLAIN, SCRAM and OAUTHBEARER are known. No module is loaded by its name.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_SPACE = re.compile(r"(?:\s+|//[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[^\s;=\"']+")
_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"


class LoginModule(NamedTuple):
    """One module with its options."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Leave out the options: they hold passwords."""
        return f"LoginModule(name={self.name!r})"


MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""The login module of each mechanism."""

_CREDENTIALS = "username|password"
_OF_TOKENS = (
    r"unsecuredLogin(?:(?:String|Number|List)Claim|Extension)_.+"
    r"|unsecuredLogin(?:PrincipalClaimName|LifetimeSeconds|ScopeClaimName)"
    r"|unsecuredValidator(?:PrincipalClaimName|AllowableClockSkewMs)"
    r"|clientId|clientSecret|scope|ssl\.truststore\.(?:location|type)"
)
_SAID_OF_TOKENS = (
    "ssl.truststore.location, ssl.truststore.type, unsecuredValidatorPrincipalClaimName, "
    "unsecuredValidatorAllowableClockSkewMs, and those by which clients log in"
)
_OPTIONS = {
    "PLAIN": (rf"{_CREDENTIALS}|{_USER}.+", "username, password and user_NAME"),
    "SCRAM-SHA-256": (_CREDENTIALS, "username and password"),
    "SCRAM-SHA-512": (_CREDENTIALS, "username and password"),
    "OAUTHBEARER": (_OF_TOKENS, _SAID_OF_TOKENS),
}
"""The options of each mechanism's module, and how they are called in a fault."""


def parse_jaas(text: str) -> LoginModule:
    """Return the login module of a text like ``MODULE required user_alice="secret";``.

    Raises:
        ValueError: the text has another form. The message completes "must be" and quotes nothing
            from the text, which may hold passwords.
    """
    words = _split(text)
    if words[-1:] != [(";", True)] or words.count((";", True)) != 1:
        raise ValueError("one login module with its options, and a ; at its end")
    names = [word for word, _ in words[:2]]
    if len(names) != 2 or names[1].lower() not in _FLAGS:
        raise ValueError("a login module, then required, then its options and a ;")
    options: dict[str, str] = {}
    rest = words[2:-1]
    if len(rest) % 3:
        raise ValueError('a login module whose options are written name="value"')
    for (name, _), equals, (value, is_sign) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != ("=", True) or is_sign or name in options:
            raise ValueError('a login module whose options are written name="value", each once')
        options[name] = value
    return LoginModule(names[0], options)


def _split(text: str) -> list[tuple[str, bool]]:
    """Return the words and the signs = and ; of a text, each with True if it is a sign."""
    words: list[tuple[str, bool]] = []
    position = 0
    while True:
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing, too
        if position == len(text):
            return words
        if text[position] in "=;":
            words.append((text[position], True))
            position += 1
            continue
        match = _QUOTED.match(text, position)
        if match is not None:
            inner = match[1] if match[1] is not None else match[2]
            words.append(
                (_ESCAPE.sub(lambda found: _CONTROLS.get(found[1], found[1]), inner), False)
            )
        else:
            match = _WORD.match(text, position)
            if match is None:
                raise ValueError("a login module whose quotes are closed")
            words.append((match[0], False))
        position = match.end()


def check_module(mechanism: str, module: LoginModule) -> None:
    """Refuse a module of another mechanism, or an option that this broker does not know.

    Raises:
        ValueError: the module is refused; the message completes "must be".
    """
    if module.name != MODULES[mechanism]:
        raise ValueError(f"{MODULES[mechanism]}, the only module of {mechanism} that is known here")
    options, known = _OPTIONS[mechanism]
    if not all(re.fullmatch(options, name, re.DOTALL) for name in module.options):
        raise ValueError(f"a module with the options {known} alone")


def users_of(module: LoginModule) -> dict[str, str]:
    """Return the passwords from PlainLoginModule's ``user_NAME`` options, by user."""
    return {
        name.removeprefix(_USER): value
        for name, value in module.options.items()
        if name.startswith(_USER)
    }
