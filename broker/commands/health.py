"""``siltstone health``: the readiness check for a container's HEALTHCHECK, without a shell."""

import argparse
import json
import sys

from siltstone.broker.commands.asking import (
    NobodyAnswers,
    find_address,
    find_why_refused,
    reading_token,
    trust_of,
)
from siltstone.broker.commands.http_client import UnansweredError, ask, nobody_answers
from siltstone.broker.commands.options import read_settings, seconds


def add_health(parser: argparse.ArgumentParser) -> None:
    """Add the option for the longest wait."""
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="SECONDS")


def run_health(options: argparse.Namespace) -> int:
    """Ask ``/readyz`` of the broker, print what it says; return 0 if it is ready, 1 if not."""
    layers = read_settings(options)
    try:
        address, trust = find_address(layers), trust_of(layers)
    except NobodyAnswers as error:
        return _tell(options, error.advice)
    except OSError as error:
        return _tell(options, str(error))
    token, patience = reading_token(layers), options.timeout
    try:
        answer = ask(address, "GET", "/readyz", token=token, timeout_seconds=patience, trust=trust)
    except UnansweredError as error:
        return _tell(options, f"{address[0]}:{address[1]} {error}")
    except ConnectionRefusedError:
        return _tell(options, find_why_refused(layers, address).advice)
    except (OSError, ValueError) as error:
        return _tell(options, f"{nobody_answers(address)}: {error}")
    return _tell(options, answer.sentence, is_ready=answer.status == 200)


def _tell(options: argparse.Namespace, sentence: str, *, is_ready: bool = False) -> int:
    """Print the verdict and return the exit code."""
    if options.json:
        sys.stdout.write(json.dumps({"ready": is_ready, "message": sentence}) + "\n")
    else:
        (sys.stdout if is_ready else sys.stderr).write(f"{sentence}\n")
    return 0 if is_ready else 1
