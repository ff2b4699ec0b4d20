"""Mutants of the op `kda`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "kda",
        "taps_in_the_wrong_order",
        "mixed + weight[j] * window[t + j]",
        "mixed + weight[c.conv_taps - 1 - j] * window[t + j]",
    ),
    Mutant(
        "kda",
        "decay_forgotten",
        "rState[i].store(rState[i].load() * decay)",
        "rState[i].store(rState[i].load())",
    ),
    Mutant("kda", "gate_bound_ignored", "c.gate_lower_bound * gate", "-gate"),
    Mutant(
        "kda",
        "padding_slot_served",
        "if window_slot > 0 and slot > 0:",
        "if window_slot >= 0 and slot >= 0:",
    ),
    Mutant(
        "kda",
        "state_of_the_first_token_always",
        "slot = gSlots[last_accepted]",
        "slot = gSlots[0]",
    ),
    Mutant(
        "kda",
        "taps_not_moved_by_what_was_accepted",
        "gConv[last_accepted + j, channel]",
        "gConv[j, channel]",
    ),
    Mutant("kda", "states_all_in_one_page", "page = sPage[t]", "page = sPage[0]"),
    Mutant(
        "kda",
        "decay_of_the_first_token_for_all",
        "sQkv[t, None, None], sDecay[t, None]",
        "sQkv[t, None, None], sDecay[0, None]",
    ),
    Mutant(
        "kda",
        "square_of_one_cta_forgotten",
        "for other in cutlass.range_constexpr(1, c.split):",
        "for other in cutlass.range_constexpr(1, c.split - 1):",
    ),
    Mutant(
        "kda",
        "shares_not_given_to_the_last_cta",
        "for peer in cutlass.range_constexpr(self.config.split):",
        "for peer in cutlass.range_constexpr(self.config.split - 1):",
    ),
    Mutant(
        "kda",
        "slot_of_before_the_wait",
        "slot = gSlots[last_accepted]",
        "slot = early if cutlass.const_expr(c.tokens == 1) else gSlots[last_accepted]",
        late=True,
    ),
)
