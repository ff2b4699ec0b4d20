"""The op `dense_mlp`: dense feed-forward part. Reference only; no kernel yet."""
