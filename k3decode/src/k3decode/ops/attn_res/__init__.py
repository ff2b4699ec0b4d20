"""The op `attn_res`: attention over residual blocks. Reference only; no kernel yet."""
