"""The op `short_conv`: short causal convolution. Reference only; no kernel yet."""
