"""The op `mla`: multi-head latent attention. Reference only; no kernel yet."""
