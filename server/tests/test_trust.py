from datetime import timedelta

import pytest

from k3bundle.subject import ChangeUnderTest
from k3server.trust import (
    LADDER,
    NONCE_SENTENCES,
    TRUST_SENTENCES,
    NonceStanding,
    NonceTicket,
    TrustLevel,
    highest,
    nonce_standing,
    trust_level,
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


SIGNER = DOCUMENT.signer_fingerprint


def ticket(
    change: ChangeUnderTest = CHANGE, plan: str = RUN.plan_sha256, signer: str | None = SIGNER
) -> NonceTicket:
    return NonceTicket(RUN.nonce, change, plan, NOW, NOW + timedelta(hours=1), signer)


@pytest.mark.parametrize(
    ("issued", "used", "late", "standing"),
    [
        (ticket(), False, False, "issued-here"),
        (ticket(), False, True, "expired"),
        (ticket(), True, False, "reused"),
        (ticket(), True, True, "reused"),
        (ticket(OTHER_COMMIT), False, False, "foreign"),
        (ticket(plan="00" * 32), False, False, "foreign"),
        (ticket(signer="SHA256:" + "B" * 43), False, False, "foreign"),
        # Issued before registries asked whose key it is for.
        (ticket(signer=None), False, False, "issued-here"),
        (None, False, False, "local"),
    ],
)
def test_nonce_standing_needs_change_plan_key_time_and_first_use(
    issued: NonceTicket | None, used: bool, late: bool, standing: NonceStanding
) -> None:
    received = NOW + timedelta(hours=2 if late else 0)
    found = nonce_standing(
        RUN, CHANGE, SIGNER, ticket=issued, used_by_another=used, received_at=received
    )
    assert found == standing
    assert found in NONCE_SENTENCES


def test_nonce_said_to_come_from_a_registry_but_unknown_here() -> None:
    run = RUN.model_copy(update={"nonce_source": "registry"})
    found = nonce_standing(run, CHANGE, SIGNER, ticket=None, used_by_another=False, received_at=NOW)
    assert found == "unknown"


@pytest.mark.parametrize("standing", ["foreign", "reused", "expired"])
def test_bad_nonce_lowers_the_level_and_says_so(standing: NonceStanding) -> None:
    assert trust_level(["signed"], standing, witnessed=True, audited=False) == "self-reported"
    assert "lowers the trust level" in NONCE_SENTENCES[standing]
    # An operator knows of the nonce, and stands by the run.
    assert trust_level(["signed"], standing, witnessed=True, audited=True) == "audited"


@pytest.mark.parametrize("standing", ["issued-here", "local", "unknown"])
@pytest.mark.parametrize(
    ("vouched", "witnessed", "level"),
    [
        ((), True, "self-reported"),
        (("signed",), False, "signed"),
        (("self-reported", "signed"), True, "reproduced"),
    ],
)
def test_level_follows_from_who_stands_behind_it_and_who_agrees(
    standing: NonceStanding, vouched: tuple[TrustLevel, ...], witnessed: bool, level: TrustLevel
) -> None:
    assert trust_level(vouched, standing, witnessed=witnessed, audited=False) == level


def test_highest_takes_the_strongest_level() -> None:
    assert highest([]) == "self-reported"
    assert highest(["signed", "self-reported"]) == "signed"
    assert highest(["audited", "reproduced", "signed"]) == "audited"
    assert set(TRUST_SENTENCES) == set(LADDER)
