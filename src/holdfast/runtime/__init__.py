"""Running a conversation: providers, tools, and the loop that joins them over a session."""
