"""A process that answers as GitHub's published interface describes."""
