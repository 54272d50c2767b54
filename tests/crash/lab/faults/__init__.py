"""Plays on disks that fail: each module has some, each play is a function that gets a ``Player``.

A play says what it appends in the words of the scenario, so that the oracle can judge what is left,
and states rules of its own about what the store must say and do meanwhile.
"""
