"""The load client beside `vllm bench serve`: what it costs, and whether both measure the same."""
