"""The version of the package, written into lock files and writer entries."""

__version__ = "0.1.0"
