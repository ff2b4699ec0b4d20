"""Tiers as data: which cells run in every boot, in which order, and the gates."""

from k3runner.tiers.loading import Tier, load_tier

__all__ = ["Tier", "load_tier"]
