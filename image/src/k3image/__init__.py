"""Builds, compares and runs the images of k3-eval. Standard library only, and the runner's tree."""
