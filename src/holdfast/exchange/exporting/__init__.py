"""A session becomes a file: what every exporter works from."""
