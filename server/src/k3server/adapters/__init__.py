"""The outside world: disk, database, clock and the verifier's process."""
