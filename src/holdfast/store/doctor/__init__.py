"""Checks of sessions, caches and the home folder, and what to do about each finding."""
