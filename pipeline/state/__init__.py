"""The state of a run: its database, and what is read from it and written to it."""
