"""A background process that holds one session and runs its turns."""
