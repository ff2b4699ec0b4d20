"""Keeps the engine under test from the referee: another user, a folder of its own, and a guard."""
