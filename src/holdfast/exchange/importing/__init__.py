"""From an importer's items to a session of the store, the same for every agent.

In reading order:

    items              the vocabulary: what an importer can say about a foreign session
    importer           one import: decides between new, grown, branched and unchanged, and writes
    sequence           items become entries with numbers, times and parents
    ledger             which sources were imported before, read from the sessions themselves
    incremental        a source that has changed since its last import
    rewritten_history  agents that write their whole history again at each change
    usage_dedup        requests that a source repeats are counted once

The rest helps importers to read files that may hold anything: ``source_files`` (streaming, bounded,
read-only), ``sqlite_sources`` (databases, without changing them), ``json_fields`` (values of the
expected type, or nothing) and ``content_blocks`` (message content as the large vendors write it).
"""
