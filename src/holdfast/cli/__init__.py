"""The command line: one file per verb, and the place where everything is put together."""
