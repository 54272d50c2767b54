"""Other agents' sessions become ours: what every importer works with."""
