"""The isolation audit: what a change touches, read from git objects, running none of its code."""
