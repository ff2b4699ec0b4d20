"""The list of mutants: device code broken on purpose; the cases must notice each of them.

`python -m k3decode.mutants` runs them (mutation.py). References are never changed.
"""

import sys
from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant", "mutate"]


@dataclass(frozen=True)
class Mutant:
    """One defect in the device code of an op."""

    op: str
    name: str
    found: str
    """Text that occurs once in the file."""
    replaced: str
    file: str = "kernel.py"
    """File of the op's folder."""


MUTANTS = (
    Mutant(
        "attn_res",
        "prefix_replaced_instead_of_added",
        "rPrefix.store(total.to(BFloat16))",
        "rPrefix.store(rPending.load())",
    ),
    Mutant(
        "attn_res",
        "scores_not_normalised",
        "score = dot * cute",
        "score = dot + 0 * cute",
    ),
    Mutant(
        "attn_res",
        "neighbouring_block_written",
        "mBlocks[row, config.write_block, None]",
        "mBlocks[row, config.write_block ^ 1, None]",
    ),
    Mutant(
        "attn_res",
        "sum_of_one_cta_forgotten",
        "for p in cutlass.range_constexpr(1, config.ctas):",
        "for p in cutlass.range_constexpr(1, config.ctas - 1):",
    ),
    Mutant(
        "embedding",
        "row_off_by_one",
        "mTokens[row] - first_token",
        "mTokens[row] - first_token + 1",
    ),
    Mutant("embedding", "zeros_forgotten", "rRow.fill(0.0)", "rRow.fill(1.0)"),
    Mutant(
        "experts", "share_forgotten", "total + share * sums[2 * j + i]", "total + sums[2 * j + i]"
    ),
    Mutant("experts", "gate_and_up_swapped", "situ(gate, up,", "situ(up, gate,"),
    Mutant(
        "experts",
        "second_chunk_takes_the_first_columns",
        "rAhead[1], gToken, start + chunk)",
        "rAhead[1], gToken, start)",
    ),
    Mutant(
        "experts",
        "tokens_beyond_eight_take_the_first",
        "groups.sFirst[place] + column + cute.arch.lane_idx() // 4",
        "groups.sFirst[place] + cute.arch.lane_idx() // 4",
    ),
    Mutant(
        "experts",
        "experts_of_the_last_warp_forgotten",
        "range_constexpr(c.down_warps)",
        "range_constexpr(c.down_warps - 1)",
    ),
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
    Mutant("latent_norm", "eps_forgotten", "(1.0 / c.width) + c.eps", "(1.0 / c.width)"),
    Mutant("latent_norm", "last_warp_forgotten", "if lane < c.warps:", "if lane < c.warps - 1:"),
    Mutant(
        "mla_combine",
        "weights_not_normalised",
        "weights[j] / total",
        "weights[j]",
    ),
    Mutant(
        "mla_combine",
        "last_partial_forgotten",
        "split.quota - first + 1 if end > start",
        "split.quota - first if end > start",
    ),
    Mutant(
        "mla_combine",
        "gate_forgotten",
        "value.to(BFloat16).to(Float32) * gate",
        "value.to(BFloat16).to(Float32)",
    ),
    Mutant(
        "mla_combine",
        "empty_row_gated",
        "gated if sLive[i] > 0 else Float32(0.0)",
        "gated if sLive[i] > -1 else Float32(0.0)",
    ),
    Mutant(
        "mla_decode",
        "older_sums_not_rescaled",
        "rSums[i] * scales[(i // 2) % 2]",
        "rSums[i] * Float32(1.0)",
    ),
    Mutant(
        "mla_decode",
        "older_shares_not_rescaled",
        "total = rState[2 + head] * scale",
        "total = rState[2 + head]",
    ),
    Mutant(
        "mla_decode",
        "page_before",
        "asking.table[place[_REQUEST], place[_ENTRY]]",
        "asking.table[place[_REQUEST], cutlass.max(place[_ENTRY] - 1, 0)]",
    ),
    Mutant(
        "mla_decode",
        "one_token_too_many",
        "column + i % 2 < left",
        "column + i % 2 < left + 1",
    ),
    Mutant(
        "mla_decode",
        "products_of_one_warp_forgotten",
        "cutlass.range_constexpr(c.group_warps - 1)",
        "cutlass.range_constexpr(c.group_warps - 2)",
    ),
    Mutant(
        "mla_decode",
        "queries_of_the_first_heads_only",
        "sQuery[copy // c.row_copies, None]",
        "sQuery[copy // c.row_copies % 8, None]",
    ),
    Mutant(
        "mla_prepare",
        "neighbouring_place_written",
        "Int32(slot - page * page_tokens)",
        "Int32(slot - page * page_tokens) ^ 1",
    ),
    Mutant(
        "mla_prepare",
        "null_slot_served",
        "slot = mSlots[row]",
        "slot = cutlass.max(mSlots[row], Int64(0))",
    ),
    Mutant(
        "mla_prepare",
        "mean_of_the_other_norm",
        "c.latent_warps, c.latent)",
        "c.latent_warps, c.query_rank)",
    ),
    Mutant(
        "mla_prepare",
        "cache_scale_forgotten",
        ".to(Float32) / cache_scale",
        ".to(Float32)",
    ),
    Mutant(
        "mla_query",
        "columns_of_the_next_warp",
        "column = slice_index * c.columns + warp * PRODUCT_N",
        "column = slice_index * c.columns + (warp ^ 1) * PRODUCT_N",
    ),
    Mutant(
        "mla_query",
        "projected_columns_passed_on",
        "c.nope // VECTOR_WIDTH + vector",
        "vector",
    ),
    Mutant(
        "mla_query",
        "query_scale_forgotten",
        "value.to(BFloat16).to(Float32) / scale",
        "value.to(BFloat16).to(Float32)",
    ),
    Mutant("moe_tail", "shared_subtracted", "(routed + shared)", "(routed - shared)"),
    Mutant(
        "moe_tail",
        "first_part_only",
        "vector = part * self.config.threads + tid",
        "vector = part * 0 + tid",
    ),
    Mutant("router", "not_renormalised", "score / (total + _SUM_FLOOR)", "score"),
    Mutant(
        "router",
        "ties_to_the_higher_id",
        'warp_redux_sync(candidate, "min")',
        "warp_redux_sync(Int32(-1) if candidate == _NO_EXPERT else candidate, 'max')",
    ),
    Mutant(
        "router",
        "bias_in_the_weights",
        "score = _sigmoid(mLogits[row, mine])",
        "score = _sigmoid(mLogits[row, mine]) + mBias[mine]",
    ),
    Mutant(
        "situ",
        "gate_taken_twice",
        "mGateUp[row, None], vectors + vector",
        "mGateUp[row, None], vector",
    ),
    Mutant("situ", "gate_and_up_swapped", "situ(gate, up,", "situ(up, gate,"),
)
"""Two or more per op, each a mistake somebody could make."""


def mutate(mutant: Mutant, source: str) -> str:
    """Apply the replacement.

    Raises:
        ValueError: the text is not in the source exactly once.
    """
    count = source.count(mutant.found)
    if count != 1:
        raise ValueError(
            f"{mutant.op}/{mutant.name}: expected '{mutant.found}' once in {mutant.file}, found it "
            f"{count} times: follow the kernel's change here"
        )
    return source.replace(mutant.found, mutant.replaced)


if __name__ == "__main__":
    from k3decode.mutation import main

    sys.exit(main())
