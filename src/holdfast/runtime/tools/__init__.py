"""What a model may do. ``contract`` has the protocol, the rest are the tools and their rules."""
