"""The ops of a K3 layer, one folder each; `reference.py` in it is the specification."""
