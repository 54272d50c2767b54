"""The chat: input, transcript, status line, slash commands."""
