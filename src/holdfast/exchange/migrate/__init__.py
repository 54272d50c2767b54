"""``holdfast migrate``: import a legacy store once and rename its files ``….migrated``.

``legacy`` lists what is in the folder: sessions of any agent, and files that are none. ``migrate``
stages all sessions, publishes them together and only then renames the originals. After a crash the
same call continues.
"""
