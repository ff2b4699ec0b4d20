"""Serving metrics: one small pure module each, with its formula."""
