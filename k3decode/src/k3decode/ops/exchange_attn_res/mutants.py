"""Mutants of the op `exchange_attn_res`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "exchange_attn_res",
        "last_rank_forgotten",
        "totals = [totals[i] + values[i] for i in range(VECTOR_WIDTH)]",
        "totals = [totals[i] + values[i] * float(r < 7) for i in range(VECTOR_WIDTH)]",
    ),
    Mutant(
        "exchange_attn_res",
        "sent_to_the_wrong_slot",
        "send_words(peers[r] + rank * slot_bytes + inside, mine)",
        "send_words(peers[r] + r * slot_bytes + inside, mine)",
    ),
    Mutant(
        "exchange_attn_res",
        "columns_of_the_first_rank",
        "at = vector - rank * config.share_vectors",
        "at = vector % 2",
    ),
    Mutant(
        "exchange_attn_res",
        "nobody_waited_for",
        "wanted = Int32(1) if r != rank else Int32(0)",
        "wanted = Int32(0)",
    ),
)
