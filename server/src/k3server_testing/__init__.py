"""Stand-ins for the outside world of the registry, and example submissions, for its tests.

No number in here was measured.
"""
