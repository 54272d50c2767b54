"""The medium of files: a session is a folder.

    journal.jsonl        the truth: one entry per line, chained checksums, append-only
    journal.2.jsonl …    where writing continued after a sync had failed
    live.jsonl           the text of running streams
    lock                 flock of the one writer; who it is, and how far it has synced
    blobs/               payloads too large for a line
    archive/             journals before a rewrite, compressed
    damaged/             bytes that repair cut off

Life of a journal: a writer makes the folder under a temporary name, puts header and first entries
in with one write, syncs, renames it into place. From then on it only appends: one write and one
sync (on Linux a single call) for all that is waiting, then the acknowledgements. A reader takes
whole lines up to the durable offset in ``lock``; it syncs what lies beyond before it shows it.

    backend     ``FileBackend``: implements ``holdfast.store.backend``
    layout      where folders are; how a session is found, and made
    open        from a folder to what is read or written, repaired
    log_writer  the one writer: bytes to the end of a file, durable on return
    lock        one writer
    reader      several files as one log; ``segment`` is one of them, ``compressed`` a packed one
    repair      the end of a file after a crash
    live        the file of running streams
    watch       what is new in a session's files
    blobs, compact, compress, create, staging, receiving, trash, cleanup, provenance

The exact format is in ``docs/format.md``.
"""
