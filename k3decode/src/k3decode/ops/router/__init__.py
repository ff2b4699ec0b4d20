"""The op `router`: expert selection. Reference only; no kernel yet."""
