"""Mutants of the op `exchange_latent_norm`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

_RANKS = "../../device/rank_rows.py"
_WORDS = "../../device/mailbox_words.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "exchange_latent_norm",
        "own_part_twice",
        "taken = [there[i] if r != rows.rank else mine[i] for i in range(WORDS)]",
        "taken = [there[i] if r + 1 != rows.rank else mine[i] for i in range(WORDS)]",
        file=_RANKS,
    ),
    Mutant(
        "exchange_latent_norm",
        "sent_to_the_wrong_slot",
        "_send(rows, rows.rank * slot_bytes + inside, mine)",
        "_send(rows, (ranks - 1 - rows.rank) * slot_bytes + inside, mine)",
        file=_RANKS,
    ),
    Mutant(
        "exchange_latent_norm",
        "sentinel_sent",
        "_OTHER_NAN = 0x7FFF7FFF",
        "_OTHER_NAN = -1",
        file=_WORDS,
    ),
    Mutant(
        "exchange_latent_norm",
        "place_not_freed",
        "send_words(address, [Int32(_MISSING)] * WORDS)",
        "pass",
        file=_WORDS,
    ),
    Mutant(
        "exchange_latent_norm",
        "first_row_of_this_rank",
        "mine = own.toint() + Int64(row) * own_row_bytes",
        "mine = own.toint()",
    ),
    Mutant(
        "exchange_latent_norm",
        "weight_of_the_first_columns",
        "weight = read_vector(mWeight, tid)",
        "weight = read_vector(mWeight, 0)",
    ),
)
