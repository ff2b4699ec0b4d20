"""Mutants of the op `exchange_latent_norm`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "exchange_latent_norm",
        "own_part_twice",
        "taken = [there[i] if r != rank else mine[i] for i in range(len(mine))]",
        "taken = [there[i] if r + 1 != rank else mine[i] for i in range(len(mine))]",
    ),
    Mutant(
        "exchange_latent_norm",
        "sent_to_the_wrong_slot",
        "send_words(peers[r] + rank * slot_bytes + inside, mine)",
        "send_words(peers[r] + r * slot_bytes + inside, mine)",
    ),
    Mutant(
        "exchange_latent_norm",
        "sentinel_sent",
        "_OTHER_NAN = 0x7FFF7FFF",
        "_OTHER_NAN = -1",
        file="../../device/mailbox_words.py",
    ),
    Mutant(
        "exchange_latent_norm",
        "place_not_freed",
        "send_words(address, [Int32(_MISSING)] * WORDS)",
        "pass",
        file="../../device/mailbox_words.py",
    ),
)
