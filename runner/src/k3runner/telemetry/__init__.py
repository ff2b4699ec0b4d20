"""Samples accelerators and host while cells run, beside the load and without touching either."""
