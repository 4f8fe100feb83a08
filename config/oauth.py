"""The settings of tokens (OAUTHBEARER): the keys that sign them, and the claims they must have.

The names are Kafka's, for all listeners, for one listener, and for its mechanism. Neither a client
nor a dynamic setting can give an address for keys: keys come from a file that the configuration
names, or from an https URL that ``sasl.oauthbearer.allowed.urls`` names as well. (Kafka:
SaslConfigs, OAuthBearerValidatorCallbackHandler, OAuthBearerUnsecuredValidatorCallbackHandler.)
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from siltstone.config.jaas import LoginModule
from siltstone.config.keys import Check, Kind, at_least, key, long_key, settings_of
from siltstone.config.values import parse

OAUTHBEARER = "OAUTHBEARER"
HANDLER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "sasl.oauthbearer.allowed.urls"
_CLAIMS = {
    "audience": "tokens that are for other services",
    "issuer": "tokens of any issuer whose key has signed them",
}
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
VALIDATOR = f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler"
UNSECURED = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_HANDLERS = (VALIDATOR, f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler", UNSECURED)
HANDLER_CHECK = Check(
    lambda name: name in _HANDLERS,
    f"{VALIDATOR}, or for tests on loopback {UNSECURED}; no other class is known here",
)
_CLAIM = Check(lambda name: bool(name.strip()), "the name of a claim")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The settings for the check of tokens; a part of `config.security`."""

    # fmt: off
    sasl_oauthbearer_jwks_endpoint_url: str | None = key(None,
        "Where the keys are that sign tokens, as a JSON Web Key Set: a file by file:///PATH, or an "
        "https URL that sasl.oauthbearer.allowed.urls names.",
        kind=Kind.STRING)
    sasl_oauthbearer_allowed_urls: tuple[str, ...] = key((),
        "The https URLs from which keys may be fetched, each written as in "
        "sasl.oauthbearer.jwks.endpoint.url. Kafka has a property of its JVM for them, "
        "org.apache.kafka.sasl.oauthbearer.allowed.urls.",
        ours=True)
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key((),
        "The audiences of which a token must name one. Without it the broker starts only with "
        "sasl.oauthbearer.allow.unverified.audience.")
    sasl_oauthbearer_expected_issuer: str | None = key(None,
        "The issuer that a token must name. Without it the broker starts only with "
        "sasl.oauthbearer.allow.unverified.issuer.",
        kind=Kind.STRING)
    sasl_oauthbearer_allow_unverified_audience: bool = key(False,
        "Whether tokens for any service are taken where sasl.oauthbearer.expected.audience is "
        "empty.")
    sasl_oauthbearer_allow_unverified_issuer: bool = key(False,
        "Whether tokens of any issuer whose key has signed them are taken where "
        "sasl.oauthbearer.expected.issuer is empty.")
    sasl_oauthbearer_clock_skew_seconds: int = key(30,
        "By how much the clocks of the issuer and of the broker may differ, in seconds.",
        check=at_least(0))
    sasl_oauthbearer_sub_claim_name: str = key(
        "sub", "The claim that names the user of a token.", check=_CLAIM
    )
    sasl_oauthbearer_scope_claim_name: str = key("scope",
        "The claim with the scopes of a token. They must be text or a list of texts; rights come "
        "from ACLs alone.",
        check=_CLAIM)
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long_key(
        3_600_000, "How old keys get before they are read again.", check=at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = long_key(100,
        "How long after a failure keys are not asked for again; twice as long after each more.",
        check=at_least(0))
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = long_key(10_000,
        "The most that this wait grows to, and the least time between two readings for tokens of "
        "unknown keys.",
        check=at_least(1))
    # fmt: on


_SETTINGS = settings_of(OAuthConfig)
OF_LISTENER: dict[str, tuple[Kind, Check | None]] = {
    name: (setting.kind, setting.check) for name, setting in _SETTINGS.items() if name != ALLOWED
}
"""The settings that a listener may have for itself, and for its mechanism."""


class OAuthSettings(NamedTuple):
    """The check of tokens at one listener. ``authorities`` is a PEM file for the https URL.

    ``unverified`` has those of audience and issuer that may be anything.
    """

    url: str
    audiences: tuple[str, ...]
    issuer: str | None
    skew_ms: int
    subject_claim: str
    scope_claim: str
    refresh_ms: int
    backoff_ms: int
    max_backoff_ms: int
    authorities: str | None
    is_unsecured: bool
    unverified: tuple[str, ...] = ()


def settings_of_tokens(
    config: OAuthConfig, find: Callable[[str], str | None], module: LoginModule | None
) -> OAuthSettings:
    """Return how a listener checks tokens; ``find`` returns the listener's own settings as text."""

    def value(name: str) -> Any:
        text = find(name)
        if text is None:
            return getattr(config, name.replace(".", "_"))
        return parse(_SETTINGS[name].kind, text)

    prefix = "sasl.oauthbearer."
    options = {} if module is None else module.options
    is_unsecured = find(HANDLER) == UNSECURED
    skew_ms = value(f"{prefix}clock.skew.seconds") * 1000
    subject_claim = value(f"{prefix}sub.claim.name")
    if is_unsecured:
        skew_ms = int(options.get(_SKEW, "0"))
        subject_claim = options.get(_SUBJECT, "sub")
    return OAuthSettings(
        url=value(URL) or "",
        audiences=value(f"{prefix}expected.audience"),
        issuer=value(f"{prefix}expected.issuer") or None,
        skew_ms=skew_ms,
        subject_claim=subject_claim,
        scope_claim=value(f"{prefix}scope.claim.name"),
        refresh_ms=value(f"{prefix}jwks.endpoint.refresh.ms"),
        backoff_ms=value(f"{prefix}jwks.endpoint.retry.backoff.ms"),
        max_backoff_ms=value(f"{prefix}jwks.endpoint.retry.backoff.max.ms"),
        authorities=options.get(_AUTHORITIES),
        is_unsecured=is_unsecured,
        unverified=tuple(each for each in _CLAIMS if value(f"{prefix}allow.unverified.{each}")),
    )


_SKEW = "unsecuredValidatorAllowableClockSkewMs"
_SUBJECT = "unsecuredValidatorPrincipalClaimName"
_AUTHORITIES = "ssl.truststore.location"


def check_options(module: LoginModule) -> None:
    """Refuse values of OAuthBearerLoginModule's options that this broker cannot obey.

    Raises:
        ValueError: a value is refused; the message completes "must be".
    """
    if module.options.get("ssl.truststore.type", "PEM").upper() != "PEM":
        raise ValueError("a module whose ssl.truststore.type is PEM")
    if not module.options.get(_SKEW, "0").isdecimal():
        raise ValueError(f"a module whose {_SKEW} is a number of milliseconds")


def path_of(url: str) -> str | None:
    """Return the path of a file URL, or None for another URL."""
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415  # few starts need it

    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return unquote(parts.path) if not parts.query and not parts.fragment else None


def token_faults(
    settings: OAuthSettings, config: OAuthConfig, listener: str, *, is_loopback: bool
) -> Iterator[tuple[str, str]]:
    """Yield the faults that keep a listener from checking tokens, with the settings to look at."""
    where = f"the listener {listener}"
    if settings.is_unsecured:
        if not is_loopback:
            fault = f"{where} takes tokens without a signature, and is not on loopback; "
            yield HANDLER, f"{fault}set {HANDLER} to {VALIDATOR}"
        if settings.url:
            fault = f"{where} has keys and takes tokens without a signature; "
            yield URL, f"{fault}set {HANDLER} to {VALIDATOR}, or remove the keys"
        return
    if not settings.url:
        fault = f"{where} takes tokens, but {URL} does not say where the keys are; "
        yield URL, f"{fault}set it to file:///PATH, or to an https URL of {ALLOWED}"
        return
    for claim, taken in _CLAIMS.items():
        expected = settings.audiences if claim == "audience" else settings.issuer
        if not expected and claim not in settings.unverified:
            name = f"sasl.oauthbearer.expected.{claim}"
            fault = f"{where} would take {taken}, since {name} is not set; set it, or "
            yield name, f"{fault}sasl.oauthbearer.allow.unverified.{claim}=true"
    path = path_of(settings.url)
    if path is not None and path.startswith("/"):
        return
    if not _is_https(settings.url):
        fault = f"{where} has a {URL} that is neither file:///PATH nor https://HOST/PATH; "
        yield URL, f"{fault}keys are fetched from nowhere else"
    elif settings.url not in config.sasl_oauthbearer_allowed_urls:
        fault = f"{where} has a {URL} that {ALLOWED} does not name; "
        yield ALLOWED, f"{fault}add it there as it is written"


def _is_https(url: str) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415  # likewise

    try:
        parts = urlsplit(url)
        is_whole = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    has_more = parts.username is not None or parts.password is not None or parts.fragment
    return is_whole and not has_more and re.fullmatch(r"[!-~]+", url) is not None


def unasked_tokens(config: OAuthConfig) -> Iterator[tuple[str, str]]:
    """Yield settings that promise a check of tokens, if the broker accepts no tokens."""
    given = {
        URL: config.sasl_oauthbearer_jwks_endpoint_url,
        "sasl.oauthbearer.expected.audience": config.sasl_oauthbearer_expected_audience,
        "sasl.oauthbearer.expected.issuer": config.sasl_oauthbearer_expected_issuer,
    }
    for name, value in given.items():
        if value:
            fault = f"{name} promises that tokens are checked, but no listener takes any; "
            yield name, f"{fault}add {OAUTHBEARER} to sasl.enabled.mechanisms, or remove it"
