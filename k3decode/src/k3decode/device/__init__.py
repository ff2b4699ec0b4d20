"""Pieces of device code that two kernels or more use."""
