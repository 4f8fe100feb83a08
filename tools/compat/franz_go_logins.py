"""franz-go over TLS and with each mechanism of SASL, and its errors when a login is refused.

Its own tests ask for one listener with SASL and leave TLS out; the program is ours (`go/login.go`).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.authority import Authority
from tests.support.broker import ADDRESS, SiltstoneProcess
from tests.support.tokens import AUDIENCE, ISSUER, Issuer, claims
from tools.compat.franz_go import MODULE, VERSION
from tools.compat.suite import Outcome, cached, execute, prepare, tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIMEOUT = 60  # seconds a test
_SOURCE: Final = Path(__file__).parent / "go" / "login.go"
_TOKENS: Final = "OAUTHBEARER"
_EVERY: Final = (PLAIN, *MECHANISMS, _TOKENS)
_LISTENERS: Final = ("SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL")
_SAYS: Final = {
    "wrong-password": "SASL_AUTHENTICATION_FAILED",
    "wrong-token": "unexpected data in oauth response",  # RFC 7628's error: not shown
    "wrong-authority": "certificate signed by unknown authority",
    "no-certificate": "certificate required",
}
"""Text that the client prints where a login is not served."""


class FranzGoLogins:
    """A test is one run of the program: a listener, perhaps a mechanism, perhaps a fault."""

    name: ClassVar[str] = "franz-go-logins"
    settings: ClassVar[Mapping[str, str] | None] = None

    def __init__(self) -> None:
        self._folder = Path()

    def build(self) -> None:
        """Compile the program beside franz-go of the pinned version."""
        go = tool("go", "golang")
        self._folder = cached(f"franz-go-logins-{VERSION}")
        shutil.copy(_SOURCE, self._folder / "main.go")
        if not (self._folder / "go.mod").exists():
            prepare([go, "mod", "init", "login"], cwd=self._folder)
        prepare([go, "mod", "edit", f"-require={MODULE}@{VERSION}"], cwd=self._folder)
        prepare([go, "mod", "tidy"], cwd=self._folder)
        prepare([go, "build", "-o", "login", "."], cwd=self._folder)

    def tests(self) -> list[str]:
        """Return the names of all runs."""
        logins = [
            f"{listener}/{mechanism}{end}"
            for listener in ("SASL_PLAINTEXT", "SASL_SSL")
            for mechanism in _EVERY
            for end in ("", "/wrong-token" if mechanism == _TOKENS else "/wrong-password")
        ]
        return ["SSL", "SSL/wrong-authority", "MUTUAL", "MUTUAL/no-certificate", *logins]

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:  # its own
        """Run the program with a broker of its own."""
        issuer = Issuer()
        with (
            tempfile.TemporaryDirectory(prefix="compat-") as name,
            _broker(Path(name), issuer) as at,
        ):
            options, wrong = _options(test, Path(name), issuer)
            listener = test.partition("/")[0]
            command = [self._folder / "login", "-bootstrap", at[listener], *options]
            code = execute([*map(str, command)], log, cwd=self._folder, environ={}, timeout=TIMEOUT)
        said = log.read_text()
        is_right = _SAYS[wrong] in said and code == 1 if wrong else code == 0 and "served" in said
        return Outcome.PASSED if is_right else Outcome.FAILED


def _options(test: str, folder: Path, issuer: Issuer) -> tuple[list[str], str]:
    """Return the arguments of the program, and the expected error, if any."""
    listener, *rest = test.split("/")
    wrong = rest[-1] if rest and rest[-1] in _SAYS else ""
    options = []
    if listener != "SASL_PLAINTEXT":
        by = "stranger" if wrong == "wrong-authority" else "authority"
        options += ["-ca", str(folder / "tls" / f"{by}.pem")]
    if listener == "MUTUAL" and not wrong:
        options += ["-cert", str(folder / "tls" / "ann-store.pem")]
    if listener.startswith("SASL"):
        password = "other" if wrong else "secret"
        if rest[0] == _TOKENS:
            audience = "elsewhere" if wrong else AUDIENCE
            password = issuer.sign(claims(time.time_ns() // 1_000_000, aud=audience))
        options += ["-mechanism", rest[0], "-user", "alice", "-password", password]
    return options, wrong


@contextmanager
def _broker(folder: Path, issuer: Issuer) -> Iterator[dict[str, str]]:
    """Run a broker with a listener of each kind; yield their addresses."""
    authority = Authority(folder / "tls")
    Authority(folder / "tls", "stranger")
    server, _ = authority.issue("server"), authority.issue("ann")
    broker = SiltstoneProcess(folder / "broker")
    broker.folder.mkdir()
    own = {each.name: make_verifier(each, "secret") for each in MECHANISMS.values()}
    UserStore(broker.folder).write({"alice": {PLAIN: make_verifier(PLAIN_HASH, "secret"), **own}})
    others = ",".join(f"{name}://127.0.0.1:0" for name in _LISTENERS)
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.listener},{others}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(_EVERY),
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write(folder / "keys.json"),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "ssl.keystore.location": str(server.store),
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mutual.ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
    }
    try:
        broker.start()
        yield {name: broker.daemon.wait_for(ADDRESS.format(name))[1] for name in _LISTENERS}
    finally:
        broker.close()
