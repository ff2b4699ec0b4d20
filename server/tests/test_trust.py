from datetime import timedelta

import pytest

from k3bundle.subject import ChangeUnderTest
from k3server.trust import (
    LADDER,
    NONCE_SENTENCES,
    TRUST_SENTENCES,
    NonceStanding,
    NonceTicket,
    highest,
    nonce_standing,
)
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
DOCUMENT = example_document()
CHANGE = DOCUMENT.manifest.change
RUN = DOCUMENT.manifest.run
OTHER_COMMIT = ChangeUnderTest(
    repository=CHANGE.repository, pull_request=CHANGE.pull_request, commit_sha="0" * 40
)


def ticket(change: ChangeUnderTest = CHANGE, plan: str = RUN.plan_sha256) -> NonceTicket:
    return NonceTicket(RUN.nonce, change, plan, NOW, NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    ("issued", "used", "late", "standing"),
    [
        (ticket(), False, False, "issued-here"),
        (ticket(), False, True, "expired"),
        (ticket(), True, False, "reused"),
        (ticket(), True, True, "reused"),
        (ticket(OTHER_COMMIT), False, False, "foreign"),
        (ticket(plan="00" * 32), False, False, "foreign"),
        (None, False, False, "local"),
    ],
)
def test_nonce_standing_needs_change_plan_time_and_first_use(
    issued: NonceTicket | None, used: bool, late: bool, standing: NonceStanding
) -> None:
    received = NOW + timedelta(hours=2 if late else 0)
    found = nonce_standing(RUN, CHANGE, ticket=issued, used_by_another=used, received_at=received)
    assert found == standing
    assert found in NONCE_SENTENCES


def test_nonce_said_to_come_from_a_registry_but_unknown_here() -> None:
    run = RUN.model_copy(update={"nonce_source": "registry"})
    found = nonce_standing(run, CHANGE, ticket=None, used_by_another=False, received_at=NOW)
    assert found == "unknown"


def test_highest_takes_the_strongest_level() -> None:
    assert highest([]) == "self-reported"
    assert highest(["signed", "self-reported"]) == "signed"
    assert highest(["audited", "reproduced", "signed"]) == "audited"
    assert set(TRUST_SENTENCES) == set(LADDER)
