"""SQL files that bring a database from each version to the next; never edited once released."""
