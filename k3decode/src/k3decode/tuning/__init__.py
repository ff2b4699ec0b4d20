"""Which of several ways a launch goes: measured for a GPU where it was, else by the op's rule.

`tables/` has a file for each GPU that was measured, written by `python -m k3decode.tune`.
"""
