"""Migrations of the database, forward only: one revision each, with its SQL for each engine."""
