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

In reading order:

    backend       ``FileBackend``: implements ``holdfast.store.backend``
    layout        the home folder: where sessions are, how one is found and published
    open          from a folder to something that is read or written; repairs what a crash left
    log_writer    the one writer: bytes to the end of a file, durable on return; makes the session
    lock          one writer at a time, by flock
    reader        all files of a session as one log; ``segment`` is one of them
    repair        the end of a file after a crash
    live          the file of running streams; ``watch`` finds what is new in a session's files
    blobs         payloads as files; ``orphan_blobs`` finds those that no entry names
    staging       sessions made from entries or files of elsewhere; ``bulk_publish``: many at once
    provenance    which entries were received from elsewhere, signed with the home's key
    compact       replaces a journal by a shorter copy and archives the old one
    compress      packs journals that are not in use; ``compressed`` reads them without unpacking
    fast_verify   checks a whole journal at the speed of its checksums
    sparse_copy   copies files with holes without filling them
    trash         deletion that can be undone, and removal for good

The exact format is in ``docs/format.md``.
"""
