"""Multi-head latent attention: its reference, and what the `mla_*` ops with kernels share."""
