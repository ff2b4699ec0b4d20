"""Partial attention of many rows to gated values: the value projection by matrix instructions."""
