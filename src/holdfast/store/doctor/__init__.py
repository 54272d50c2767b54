"""Checks: what is wrong with sessions and with the home folder, and what can be done about it.

Read ``findings`` first: every kind of problem, how bad it is, what is safe all the same, and the
remedy. ``verify`` reads one session completely. ``checkup`` goes through the whole home: sessions,
then, with ``home_scan``, everything else in the folder, then the caches, with ``cache_check``.
It repairs what can be repaired without losing data, if asked to.

All of it works on local files; ``Store.verify`` and ``Store.checkup`` lead here.
"""
