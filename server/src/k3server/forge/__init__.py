"""The forge that holds the pull requests: what it says, and what it is told."""
