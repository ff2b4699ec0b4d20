"""The parts of an application that live in one database."""

from k3server.account_ports import Issuer, KeyDirectory
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.adapters.sql.blob_ledger import SqlBlobLedger
from k3server.adapters.sql.board import SqlBoard
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.sql.outbox import SqlOutbox
from k3server.parts import Parts
from k3server.ports import BundleStore, Clock, Verifier

__all__ = ["parts_on"]


def parts_on(
    database: Database,
    store: BundleStore,
    *,
    keys: KeyDirectory,
    verifier: Verifier,
    clock: Clock,
    tells: bool = False,
    issuer: Issuer | None = None,
) -> Parts:
    """The parts of an application on this database and store; `tells`: a forge is told."""
    return Parts(
        store=store,
        index=SqlIndex(database, tells=tells),
        ledger=SqlBlobLedger(database),
        accounts=SqlAccounts(database),
        moderation=SqlModeration(database),
        outbox=SqlOutbox(database),
        board=SqlBoard(database),
        keys=keys,
        verifier=verifier,
        clock=clock,
        issuer=issuer,
    )
