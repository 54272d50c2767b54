"""Bytes and lines: an append-only file that never loses what it acknowledged.

This layer knows nothing of agents. A journal is a folder:

    journal.jsonl        the truth: one entry a line, chained checksums, append-only
    journal.2.jsonl …    where writing went on after a sync had failed
    live.jsonl           what is being streamed right now
    lock                 flock of the one writer; who it is, and how far it has synced
    damaged/             bytes that repair cut off, kept

Life of a journal: a writer makes the folder under a temporary name, puts header and first entries
in with one write, syncs, renames it into place. From then on it only appends: one write and one
sync (on Linux a single call) for all that is waiting, then the acknowledgements. A reader takes
whole lines up to the durable offset in ``lock``; what lies beyond it syncs first.

    files     every file-system call there is, and the seam where tests inject faults
    format    how a line is made, sealed and read back
    lock      one writer
    segment   one file: lines forward, backward, by number
    damage    what of it cannot be read
    reader    several files as one
    repair    the end of a file after a crash
    appender  bytes to the end of a file, durable on return; full disk; failed sync
    writer    rounds: number, seal, append, acknowledge
    ticket    the promise for one append
    pump      the thread that does what nobody waits for
    live      the file of running streams

The exact format is in ``docs/format.md``.
"""
