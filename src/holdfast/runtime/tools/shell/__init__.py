"""The ``bash`` tool: a command that outlives its runner, and its output."""
