"""A Kimi K3 decode path: executable references and a plugin for unmodified vLLM."""
