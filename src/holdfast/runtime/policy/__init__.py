"""Which tool calls are allowed, denied, or need an approval."""
