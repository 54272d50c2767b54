"""From a caller's message to a durable entry: checks, numbering, streams, listeners."""
