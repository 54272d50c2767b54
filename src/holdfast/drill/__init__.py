"""The promise, proved on this machine: the real program, real blows, and a witness."""
