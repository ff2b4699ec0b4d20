"""The op `latent_moe`: routed experts in a latent space. Reference only; no kernel yet."""
