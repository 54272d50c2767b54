"""Conversations in and out: other agents' sessions become ours.

``importers`` read, one file an agent, and say what they find in a few neutral items (``items``).
``importing`` turns those into a session of the store. Neither writes to what it reads.
"""
