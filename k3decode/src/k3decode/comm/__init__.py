"""Exchanges between the ranks of a deployment: memory, what they should give, simulated peers."""
