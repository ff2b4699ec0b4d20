"""The registry: receive, verify, store, index, show."""
