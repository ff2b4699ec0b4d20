"""Load and faults against a real registry, bounded in number and time, on loopback only."""
