"""``siltstone health``: the readiness check for a container's HEALTHCHECK, without a shell."""

from __future__ import annotations

import sys

from siltstone.broker.commands.http_client import REMEDY, ask, nobody_answers

DEFAULT_TIMEOUT_SECONDS = 10.0


def run_health(address: tuple[str, int], timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> int:
    """Ask ``/readyz``, print what it says, and return the exit code: 0 ready, 1 not."""
    host, port = address
    try:
        answer = ask(address, "GET", "/readyz", timeout_seconds=timeout_seconds)
    except TimeoutError:
        sys.stderr.write(f"{host}:{port} did not answer within {timeout_seconds:g} s\n")
        return 1
    except ConnectionRefusedError:
        sys.stderr.write(f"{nobody_answers(address)}; {REMEDY}\n")
        return 1
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{nobody_answers(address)}: {error}\n")
        return 1
    ready = answer.status == 200
    (sys.stdout if ready else sys.stderr).write(f"{answer.sentence}\n")
    return 0 if ready else 1
