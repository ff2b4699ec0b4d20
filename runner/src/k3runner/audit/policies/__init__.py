"""Policies that come with the runner, as TOML."""
