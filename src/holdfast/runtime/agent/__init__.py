"""One agent: turns, tool calls, context, recovery, rewind."""
