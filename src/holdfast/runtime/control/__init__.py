"""How a runner is spoken to: the protocol, its socket, both ends of a connection."""
