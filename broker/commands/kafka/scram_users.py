"""The users of a running broker that log in by SCRAM, for ``siltstone users``."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from siltstone.broker.commands.kafka.broker import Broker, Refused, why
from siltstone.broker.commands.terminal import complain
from siltstone.broker.security.scram import (
    MECHANISM_BY_CODE,
    MECHANISMS,
    MIN_ITERATIONS,
    SALT_BYTES,
    salt_password,
)
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.messages import (
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from siltstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from siltstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from siltstone.storage.randomness import random_bytes

_ALTER: Final = Exchange(
    alter_user_scram_credentials.REQUEST, alter_user_scram_credentials.RESPONSE, 0
)
_DESCRIBE: Final = Exchange(
    describe_user_scram_credentials.REQUEST, describe_user_scram_credentials.RESPONSE, 0
)


def users(broker: Broker) -> list[dict[str, Any]]:
    """Return the users with their mechanisms, as they are printed.

    Raises:
        Refused: The client may not read them.
    """
    answer = broker.ask(_DESCRIBE, DescribeUserScramCredentialsRequest(None))
    if answer.error_code:
        raise Refused(why(answer.error_code, answer.error_message, "the users"))
    return [
        {
            "name": each.user,
            "mechanisms": [
                {"name": MECHANISM_BY_CODE[own.mechanism].name, "iterations": own.iterations}
                for own in sorted(each.credential_infos)
            ],
        }
        for each in sorted(answer.results, key=lambda each: each.user)
    ]


def change(broker: Broker, added: Mapping[str, str], removed: Iterable[str]) -> int:
    """Remove users, and add others by their passwords; return the exit code.

    Raises:
        Refused: A user to remove does not exist.
    """
    deleted = list(_deletions(broker, removed)) if removed else []
    failed = False
    for code in MECHANISM_BY_CODE:  # Kafka takes one mechanism of a user in a request
        deletions = [each for each in deleted if each.mechanism == code]
        upsertions = [_upsertion(name, code, added[name]) for name in added]
        if not (deletions or upsertions):
            continue
        answer = broker.ask(_ALTER, AlterUserScramCredentialsRequest(deletions, upsertions))
        for each in answer.results:
            if each.error_code:
                failed = True
                complain(why(each.error_code, each.error_message, f"user {each.user}"))
    return 1 if failed else 0


def _deletions(broker: Broker, names: Iterable[str]) -> Iterator[ScramCredentialDeletion]:
    there = {row["name"]: row["mechanisms"] for row in users(broker)}
    for name in names:
        if name not in there:
            raise Refused(f"there is no user {name} to remove")
        for each in there[name]:
            yield ScramCredentialDeletion(name, MECHANISMS[each["name"]].code)


def _upsertion(name: str, code: int, password: str) -> ScramCredentialUpsertion:
    salt = random_bytes(SALT_BYTES)
    salted = salt_password(MECHANISM_BY_CODE[code], password, salt, MIN_ITERATIONS)
    return ScramCredentialUpsertion(name, code, MIN_ITERATIONS, salt, salted)
