"""Settings, credentials, and which project files are trusted."""
