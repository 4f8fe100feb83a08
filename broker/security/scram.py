"""SCRAM, the server's side (RFC 5802, RFC 7677; Kafka: ScramFormatter, ScramSaslServer).

The stored form of a password can check the password but not reveal it. A user that does not exist
gets an answer with a salt of its own, the same each time. Its login fails at the same step as with
a wrong password, after the same work. No error text tells the two cases apart.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from siltstone.storage.randomness import random_bytes

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16_384
"""As many as Kafka takes from an administrator (ScramControlManager)."""

_LONGEST_TOKEN: Final = 8192
SALT_BYTES: Final = 20
"""The length of the salt of a user that is made here."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TEXT_SALT: Final = re.compile(rb"[0-9a-z]{20,26}")
_TEXT_SALT_BITS: Final = 130
_NONCE_BYTES: Final = 24

_VALUE = r"[^\0,=]"
_SASLNAME = rf"(?:{_VALUE}++|=2C|=3D)++"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]++"
_BASE64 = r"[a-zA-Z0-9/+]*+={0,2}+"
_EXTENSIONS = r"(?:,[A-Za-z]++=[^\0,]++)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>(?:m=(?P<mandatory>[^,]*),)?n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)


class SaslFailure(Exception):  # noqa: N818  # what happened
    """The client has not proven its name; the text may be sent to the client.

    ``why`` is for the broker's log: it names the fault more exactly, but never a secret.
    """

    def __init__(self, text: str, why: str | None = None) -> None:
        super().__init__(text)
        self.why = text if why is None else why


class Mechanism(NamedTuple):
    """One of Kafka's two SCRAM mechanisms: its name, its code in requests, and its hash."""

    name: str
    code: int
    digest: str

    @property
    def size(self) -> int:
        """The number of bytes of a hash."""
        return hashlib.new(self.digest).digest_size


SHA_256: Final = Mechanism("SCRAM-SHA-256", 1, "sha256")
SHA_512: Final = Mechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS: Final = {each.name: each for each in (SHA_256, SHA_512)}
MECHANISM_BY_CODE: Final = {each.code: each for each in (SHA_256, SHA_512)}


class Verifier(NamedTuple):
    """The stored form of a password (RFC 5802, section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Hide the content: with it one could try passwords, or pretend to be the server."""
        return f"Verifier(iterations={self.iterations})"


def salt_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. Milliseconds of work, without the GIL.

    As in Kafka, the UTF-8 of the password is used unchanged, without SASLprep.
    """
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def verifier_of(
    mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
) -> Verifier:
    """Return the verifier to store for a salted password."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    return Verifier(
        salt,
        iterations,
        hashlib.new(mechanism.digest, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", mechanism.digest),
    )


def make_verifier(
    mechanism: Mechanism,
    password: str,
    *,
    iterations: int = MIN_ITERATIONS,
    salt: bytes | None = None,
) -> Verifier:
    """Return the verifier to store for a password. Blocks for some milliseconds."""
    if salt is None:
        salt = random_bytes(SALT_BYTES)
    salted = salt_password(mechanism, password, salt, iterations)
    return verifier_of(mechanism, salted, salt, iterations)


def proves(mechanism: Mechanism, verifier: Verifier, password: str) -> bool:
    """Return whether a verifier was made from this password. Blocks for some milliseconds."""
    tried = make_verifier(mechanism, password, iterations=verifier.iterations, salt=verifier.salt)
    return hmac.compare_digest(tried.stored_key, verifier.stored_key)


class SaltForm(NamedTuple):
    """The part of a verifier that strangers see: its iterations, and the size of its salt in bytes.

    A salt from Kafka's tools is a number of 130 bits as text, not random bytes; then ``size`` is 0.
    """

    iterations: int
    size: int


def form_of(verifier: Verifier) -> SaltForm:
    """Return the part of a verifier that strangers see."""
    is_text = _TEXT_SALT.fullmatch(verifier.salt) is not None
    return SaltForm(verifier.iterations, 0 if is_text else len(verifier.salt))


_OUR_FORM: Final = SaltForm(MIN_ITERATIONS, SALT_BYTES)


MAX_FORMS: Final = 254
SLOTS: Final = 4096


class AbsentUsers:
    """The verifiers for users that do not exist: always the same, and without a password.

    Each verifier looks like that of a user that exists. ``forms`` has the forms of the existing
    users' verifiers in the order in which they came; a form is never removed. A name keeps the form
    of its first answer, as a user that exists keeps its form: otherwise a new form would reveal
    which names do not exist. So names are hashed to `SLOTS` slots, and ``asked`` notes for each
    slot one more than the number of forms when a name of it was first asked for. All these
    verifiers have the same key. Nobody sees the key, and every login fails whatever the key is.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        secret: bytes,
        forms: Iterable[SaltForm] = (),
        asked: bytearray | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._mark = f"salt {mechanism.name} ".encode()
        self._secret = secret
        self.forms = tuple(dict.fromkeys(forms))[:MAX_FORMS]
        self.asked = bytearray(SLOTS) if asked is None else asked
        self._has_text = not all(each.size for each in self.forms)
        self._key = hmac.digest(secret, b"stored " + self._mark, mechanism.digest)

    def beside(self, forms: Iterable[SaltForm]) -> AbsentUsers:
        """Return these absent users with the forms of more users added."""
        return AbsentUsers(self._mechanism, self._secret, (*self.forms, *forms), self.asked)

    def verifier_of(self, user: str) -> Verifier:
        """Return the verifier of an absent user; this takes the same time for every name."""
        seed = hmac.digest(self._secret, self._mark + user.encode(), "sha256")
        form = self._form_of(seed)
        octets = hashlib.shake_256(seed).digest(form.size or SALT_BYTES)
        text = _salt_of_tools(seed) if self._has_text else b""  # computed even if it is not used
        return Verifier(octets if form.size else text, form.iterations, self._key, self._key)

    def _form_of(self, seed: bytes) -> SaltForm:
        slot = int.from_bytes(hashlib.sha256(seed).digest()[:2], "big") % SLOTS
        known = self.asked[slot] - 1
        if known < 0:
            known = len(self.forms)
            self.asked[slot] = known + 1
        if known == 0:
            return _OUR_FORM
        if known == 1:
            return self.forms[0]
        return max(self.forms[:known], key=lambda each: _rank(seed, each))


def _rank(seed: bytes, form: SaltForm) -> bytes:
    return hmac.digest(seed, b"%d %d" % form, "sha256")


def _salt_of_tools(seed: bytes) -> bytes:
    """Return a salt as Kafka's tools make it: 130 bits in the digits 0 to z (ScramFormatter)."""
    number = int.from_bytes(seed, "big") >> (len(seed) * 8 - _TEXT_SALT_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()


class ScramServer:
    """One conversation: the client sends two tokens and gets two answers.

    ``user`` is the name that the client gives; it is proven once ``is_complete``. ``find`` returns
    the verifier of a user, and whether there is such a user.
    """

    lifetime_ms = 0
    refusal: str | None = None

    def __init__(
        self,
        mechanism: Mechanism,
        find: Callable[[str], tuple[Verifier, bool]],
        nonce: str | None = None,
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._mechanism = mechanism
        self._find = find
        self._own_nonce = _encode(random_bytes(_NONCE_BYTES)) if nonce is None else nonce
        self._nonce = ""
        self._header = ""
        self._bare = ""
        self._first = ""
        self._verifier: Verifier | None = None
        self._is_known = False

    def blocks(self, _: bytes) -> bool:
        """Return False: a step takes very little time."""
        return False

    def step(self, token: bytes) -> bytes:
        """Return the answer to the client's next token.

        Raises:
            SaslFailure: The token is malformed, or the client does not know the password.
        """
        if len(token) > _LONGEST_TOKEN:
            raise SaslFailure(_INVALID, f"a token of {len(token)} bytes")
        try:
            text = token.decode()
        except UnicodeDecodeError as error:
            raise SaslFailure(_INVALID, "a token is not UTF-8") from error
        if self.is_complete:
            raise SaslFailure(_INVALID, "a token after the last one")
        return self._begin(text) if self._verifier is None else self._finish(text)

    def _begin(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            if text[:2] == "p=" or text[:2] == "y,":
                raise SaslFailure(_INVALID, "channel binding is not supported")
            raise SaslFailure(_INVALID, "the first message is malformed")
        if match["mandatory"] is not None:
            raise SaslFailure(_INVALID, "a mandatory extension is not supported")
        self.user = _unescape(match["name"])
        if match["authzid"] is not None and _unescape(match["authzid"]) != self.user:
            raise SaslFailure(OTHER_AUTHORIZATION_ID)
        if "tokenauth=true" in match["extensions"].split(","):
            raise SaslFailure(_INVALID, "delegation tokens are not supported")
        self._verifier, self._is_known = self._find(self.user)
        self._header = match["header"]
        self._bare = match["bare"]
        self._nonce = match["nonce"] + self._own_nonce
        salt = _encode(self._verifier.salt)
        self._first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._first.encode()

    def _finish(self, text: str) -> bytes:
        verifier = self._verifier
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or verifier is None:
            raise SaslFailure(_INVALID, "the last message is malformed")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise SaslFailure(_INVALID, "the nonce is not the one that was sent")
        if _decode(match["binding"]) != self._header.encode():
            raise SaslFailure(_INVALID, "the channel binding is not that of the first message")
        digest = self._mechanism.digest
        message = f"{self._bare},{self._first},{match['unproven']}".encode()
        signature = hmac.digest(verifier.stored_key, message, digest)
        proof = _decode(match["proof"])
        size = len(signature)
        padded = proof.ljust(size, b"\0")[:size]
        mixed = int.from_bytes(padded, "big") ^ int.from_bytes(signature, "big")
        client_key = mixed.to_bytes(size, "big")
        stored_key = hashlib.new(digest, client_key).digest()
        is_proven = hmac.compare_digest(stored_key, verifier.stored_key)
        answer = hmac.digest(verifier.server_key, message, digest)
        if not (is_proven and self._is_known and len(proof) == size):
            raise SaslFailure(INVALID_CREDENTIALS)
        self.is_complete = True
        return b"v=" + binascii.b2a_base64(answer, newline=False)


INVALID_CREDENTIALS: Final = "Authentication failed: Invalid user credentials"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_INVALID: Final = "Authentication failed during authentication due to invalid credentials"


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _encode(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def _decode(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise SaslFailure(_INVALID, "a value is not base64") from error
