"""The op `kda`: gated delta rule. Reference only; no kernel yet."""
