"""The interactive face: a chat in the terminal's own scrollback, and a picker of sessions."""
