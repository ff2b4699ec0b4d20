"""The commands of `k3-eval`, one file each."""
