"""The list of sessions, cached in SQLite."""
