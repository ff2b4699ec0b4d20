"""Tests of the derivation of a verdict."""
