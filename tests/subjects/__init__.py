"""Shipped subjects, from the plan to the report, on recorded data."""
