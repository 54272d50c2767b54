"""A legacy store is imported whole, and its files are renamed."""
