"""Check of the decode path inside vLLM on a GPU: stock and ours in one engine, on one state."""
