"""The report of a run as one HTML file, as Markdown and as JSON."""
