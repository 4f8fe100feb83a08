"""``siltstone health``: the readiness check for a container's HEALTHCHECK, without a shell."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from siltstone.broker.commands.asking import NobodyAnswers, find_address, reading_token, trust_of
from siltstone.broker.commands.http_client import REMEDY, ask, nobody_answers
from siltstone.broker.commands.options import read_settings, seconds

if TYPE_CHECKING:
    import argparse
    import ssl

DEFAULT_TIMEOUT_SECONDS = 10.0


def add_health(parser: argparse.ArgumentParser) -> None:
    """Add the option for the longest wait."""
    parser.add_argument(
        "--timeout", type=seconds, default=DEFAULT_TIMEOUT_SECONDS, metavar="SECONDS"
    )


def run_health(options: argparse.Namespace) -> int:
    """Ask the broker that the settings describe whether it is ready."""
    layers = read_settings(options)
    try:
        address = find_address(layers)
        trust = trust_of(layers)
    except NobodyAnswers as error:
        return tell(error.advice, is_ready=False, as_json=options.json)
    except OSError as error:
        return tell(str(error), is_ready=False, as_json=options.json)
    token = reading_token(layers)
    return ask_ready(address, options.timeout, as_json=options.json, trust=trust, token=token)


def ask_ready(
    address: tuple[str, int],
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    *,
    as_json: bool = False,
    trust: ssl.SSLContext | None = None,
    token: str = "",
) -> int:
    """Ask ``/readyz``, print what it says, and return the exit code: 0 ready, 1 not."""
    host, port = address
    try:
        answer = ask(
            address, "GET", "/readyz", token=token, timeout_seconds=timeout_seconds, trust=trust
        )
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
