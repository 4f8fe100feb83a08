"""``siltstone health``: the readiness check for a container's HEALTHCHECK, without a shell."""

from __future__ import annotations

import json
import sys

from siltstone.broker.commands.http_client import REMEDY, ask, nobody_answers

DEFAULT_TIMEOUT_SECONDS = 10.0


def run_health(
    address: tuple[str, int],
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    *,
    as_json: bool = False,
) -> int:
    """Ask ``/readyz``, print what it says, and return the exit code: 0 ready, 1 not."""
    host, port = address
    try:
        answer = ask(address, "GET", "/readyz", timeout_seconds=timeout_seconds)
    except TimeoutError:
        sentence = f"{host}:{port} did not answer within {timeout_seconds:g} s"
    except ConnectionRefusedError:
        sentence = f"{nobody_answers(address)}; {REMEDY}"
    except (OSError, ValueError) as error:
        sentence = f"{nobody_answers(address)}: {error}"
    else:
        return tell(answer.sentence, is_ready=answer.status == 200, as_json=as_json)
    return tell(sentence, is_ready=False, as_json=as_json)


def tell(sentence: str, *, is_ready: bool, as_json: bool) -> int:
    """Print the verdict and return the exit code."""
    if as_json:
        sys.stdout.write(json.dumps({"ready": is_ready, "message": sentence}) + "\n")
    else:
        (sys.stdout if is_ready else sys.stderr).write(f"{sentence}\n")
    return 0 if is_ready else 1
