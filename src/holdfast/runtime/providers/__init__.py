"""Where answers come from. ``contract`` has the protocol; each other module speaks to one kind."""
