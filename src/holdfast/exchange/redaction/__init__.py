"""Secrets and local paths found in messages and replaced."""
