"""The client that only logs in: it is let in, and notices a broker that does not know the user."""

import ssl
import time
from collections.abc import Iterator

import pytest

from bench import logins
from bench.brokers import OURS
from bench.cases import wait_for_first
from bench.load import Load
from bench.secured import Secured, add_scram_user, make_secured


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Our broker with its user, which may log in by SCRAM."""
    made = make_secured(OURS, tmp_path_factory.mktemp("broker"))
    try:
        wait_for_first(Load(), made.broker, made.broker.launch(), "t")
        add_scram_user(made.broker)
        yield made
    finally:
        made.broker.close()


def test_it_logs_in_with_and_without_tls(secured: Secured) -> None:
    """Both sides prove that they know the password."""
    context = ssl.create_default_context(cafile=secured.authority)

    logins.log_in(secured.sasl, None)
    logins.log_in(secured.sasl_tls, context)


def test_it_notices_that_it_is_refused(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of refusals is no run of logins."""
    monkeypatch.setattr(logins, "USER", "nobody")

    with pytest.raises(RuntimeError, match="refused request 36"):
        logins.log_in(secured.sasl, None)


def test_it_prints_what_it_had(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    """How long each of them took."""
    began = time.monotonic()
    logins.main([str(secured.sasl), "0.1", "2"])
    took = logins.told(capsys.readouterr().out)

    assert 0 < max(took.took) <= took.seconds <= time.monotonic() - began
