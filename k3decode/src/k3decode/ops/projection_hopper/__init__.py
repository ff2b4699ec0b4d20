"""Projections of many tokens on Hopper: warpgroup products, activations multicast in a cluster."""
