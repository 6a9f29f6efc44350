"""The state of a run: its SQLite database, and the queries that read and write it."""
