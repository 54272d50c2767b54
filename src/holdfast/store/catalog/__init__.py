"""Lists of sessions, from a cache in SQLite.

``list_query`` says which sessions a list has, in terms that every medium understands. ``index`` is
the cache of the local medium: one row per session, refreshed from the files at each list and safe
to delete. ``holdfast ls`` uses it directly, because importing the whole store takes longer than the
list.
"""
