"""The session picker: list, search, preview, actions."""
