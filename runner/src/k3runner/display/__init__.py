"""Displays: listeners of events that tell a person, or a program, what a run is doing."""
