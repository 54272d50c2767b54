"""Full-text search over all sessions, and the counts for statistics.

Read ``query`` first: what a search means, that is words, phrases, filters, what matches and how
well. ``documents`` turns entries into what is searched: one document per message or title.

``scan`` searches by reading logs, on any medium; what it finds is the definition of a result. On
local files ``engine`` does the same faster: ``text_index``, a cache in SQLite that can be deleted
at any time, gives candidates, and each is checked against its journal. ``indexer`` brings the index
up to date, in steps that can be interrupted.
"""
