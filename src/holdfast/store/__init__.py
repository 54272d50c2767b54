"""Sessions: made, opened, written, read, listed, searched, deleted.

In reading order:

    store       all sessions of one store, on any medium
    session     one open session: append, stream, history, follow
    backend     what a medium has to offer; the seam below everything above
    types       the values that are handed out
    validation  what callers give, checked
    write/      from a body to a durable entry: recorder, dedup, streams, listeners, rewrites, forks
    read/       from entries to state: fold, branch, resume, follower, exports
    search/     finding messages: query, filters, documents, scan; index and engine on files
    catalog/    lists of sessions, from a cache
    doctor/     what is wrong with sessions on disk
    local/      the medium of files
    memory      the medium of this process's memory

What the media share imports neither of them; ``holdfast.open_store`` chooses one.
"""
