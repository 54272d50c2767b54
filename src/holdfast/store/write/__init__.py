"""From what a program appends to durable entries.

Read ``recorder`` first: the writing side of an open session. It checks a body, hands it to the
group commit of ``holdfast.journal.writer``, and publishes the new state when the entry is durable.

    encode     checks and encodes bodies; ``blob_refs`` takes out payloads too large for a line
    preamble   entries that come before the first one of an opening
    dedup      ids that were accepted before, so that a repeated call writes nothing twice
    listeners  callbacks for durable entries, in order
    streams    text while it is streamed, and the messages that a crash left unfinished
    rewrite    copies of a log without some lines: compaction; ``fork`` makes a session from one
    staged     the lines of a session that is made from entries of elsewhere

Nothing here knows files: the medium is behind ``holdfast.store.backend``.
"""
