"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), version 0 (KIP-554).

Clients never send the password itself, only a salted form. When a change is answered, it is on the
disk and in force for new logins. As in Apache Kafka a request may name a user only once.

Differs from Kafka: an empty salt is refused with UNACCEPTABLE_CREDENTIAL, since equal passwords
would be seen to be equal; a user added by the request that deletes the last other user of a
mechanism stays, where Apache Kafka answers 0 and loses that user.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Final, TypeAlias

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security import scram
from siltstone.broker.security.rights import ALTER, CLUSTER, DESCRIBE
from siltstone.broker.security.users import Credentials, remove
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode, KafkaStorageError, shorten
from siltstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from siltstone.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

Change: TypeAlias = Callable[[Credentials], None]

_NOT_DELETED: Final = "Attempt to delete a user credential that does not exist"
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_NO_NAME: Final = "Username must not be empty"
_NO_MECHANISM: Final = "Unknown SCRAM mechanism"


async def describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the SCRAM mechanisms of users; of all users if the request names none."""
    if not context.may(DESCRIBE, CLUSTER):
        refused = [DescribeUserScramCredentialsResult(**CLUSTER_REFUSED)] * len(request.users or ())
        return DescribeUserScramCredentialsResponse(**CLUSTER_REFUSED, results=refused)
    credentials = context.services.security.users.get().credentials
    share = LoopShare()
    counts = await share.count(request.users or (), itemgetter(0))
    if not counts:
        counts = {
            user: 1
            for user, own in credentials.items()
            if not own.keys().isdisjoint(scram.MECHANISMS)
        }
    results = await share.each(
        counts.items(), lambda each: _describe(*each, credentials.get(each[0], {}))
    )
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _describe(
    name: str, count: int, own: Mapping[str, scram.Verifier]
) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism.code, own[mechanism.name].iterations)
        for mechanism in scram.MECHANISMS.values()
        if mechanism.name in own
    ]
    if count > 1:
        code = ErrorCode.duplicate_resource
        message = (
            "Cannot describe SCRAM credentials for the same user twice in a single request: " + name
        )
    elif infos:
        return DescribeUserScramCredentialsResult(
            user=name, error_message=None, credential_infos=infos
        )
    else:
        code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=shorten(message)
    )


async def alter(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Create and delete credentials; each user succeeds or fails independently of the others."""
    if not context.may(ALTER, CLUSTER):
        names = {each.name for each in request.deletions}
        names.update(each.name for each in request.upsertions)
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(name, **CLUSTER_REFUSED) for name in sorted(names)
            ]
        )
    changes: dict[str, Change] = {}
    faults: dict[str, tuple[int, str]] = {}
    named = Counter([each.name for each in request.deletions])
    named.update(each.name for each in request.upsertions)

    def edit(draft: Credentials) -> None:
        for deletion in request.deletions:
            _judge(deletion.name, named, _check_deletion(deletion, draft), faults)
            changes[deletion.name] = partial(_delete, deletion=deletion)
        for upsertion in request.upsertions:
            _judge(upsertion.name, named, _check_upsertion(upsertion), faults)
            changes[upsertion.name] = partial(_upsert, upsertion=upsertion)
        for name, change in changes.items():
            if name not in faults:
                change(draft)

    try:
        await context.services.security.writer.get().change(edit)
    except KafkaStorageError as error:
        refusal = int(error.code), error.message
        faults = {**dict.fromkeys(changes, refusal), **faults}
    return AlterUserScramCredentialsResponse(results=[_result(name, faults) for name in changes])


def _judge(
    name: str,
    named: Counter[str],
    fault: tuple[int, str] | None,
    faults: dict[str, tuple[int, str]],
) -> None:
    """Note a user's refusal: the fault of this change, or else that the user is named twice."""
    if fault is not None:
        faults.setdefault(name, fault)
    elif named[name] > 1:
        faults.setdefault(name, (ErrorCode.duplicate_resource, _TWICE))


def _check_deletion(
    deletion: ScramCredentialDeletion, credentials: Credentials
) -> tuple[int, str] | None:
    if not deletion.name:
        return ErrorCode.unacceptable_credential, _NO_NAME
    mechanism = scram.MECHANISM_BY_CODE.get(deletion.mechanism)
    if mechanism is None:
        return ErrorCode.unsupported_sasl_mechanism, _NO_MECHANISM
    if mechanism.name not in credentials.get(deletion.name, {}):
        return ErrorCode.resource_not_found, _NOT_DELETED
    return None


def _check_upsertion(upsertion: ScramCredentialUpsertion) -> tuple[int, str] | None:
    if not upsertion.name:
        return ErrorCode.unacceptable_credential, _NO_NAME
    mechanism = scram.MECHANISM_BY_CODE.get(upsertion.mechanism)
    if mechanism is None:
        return ErrorCode.unsupported_sasl_mechanism, _NO_MECHANISM
    if upsertion.iterations > scram.MAX_ITERATIONS:
        return ErrorCode.unacceptable_credential, "Too many iterations"
    if upsertion.iterations < scram.MIN_ITERATIONS:
        return ErrorCode.unacceptable_credential, "Too few iterations"
    if not upsertion.salt:
        return ErrorCode.unacceptable_credential, "The salt must not be empty"
    return None


def _delete(draft: Credentials, deletion: ScramCredentialDeletion) -> None:
    remove(draft, deletion.name, scram.MECHANISM_BY_CODE[deletion.mechanism].name)


def _upsert(draft: Credentials, upsertion: ScramCredentialUpsertion) -> None:
    mechanism = scram.MECHANISM_BY_CODE[upsertion.mechanism]
    salted, salt = bytes(upsertion.salted_password), bytes(upsertion.salt)
    own = draft.setdefault(upsertion.name, {})
    own[mechanism.name] = scram.verifier_of(mechanism, salted, salt, upsertion.iterations)


def _result(name: str, faults: Mapping[str, tuple[int, str]]) -> AlterUserScramCredentialsResult:
    if name not in faults:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    code, message = faults[name]
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
