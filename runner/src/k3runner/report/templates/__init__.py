"""The page's template and style sheet."""
