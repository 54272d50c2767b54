"""What ``holdfast`` does without a command: the chat, and ``-p``."""
