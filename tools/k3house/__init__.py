"""The house: installation from locks, and the drivers behind the Makefile. Stdlib only."""
