"""The index and its companions on SQLite or PostgreSQL, by one set of statements."""
