"""Conversations in and out: other agents' sessions become ours, and ours become files for others.

In:  ``importers`` has one file per agent. An importer reads files of its agent and describes what
it finds with a few neutral items. ``importing`` turns items into a session of the store: numbers,
times, parents, and what was imported before. It never writes to what it reads. ``migrate`` is the
one-time variant that renames the originals afterwards.

Out: ``exporters`` has one file per format. ``exporting`` gives them a transcript, in which depth
and redaction are already applied, and writes the result to a file.

Both: ``archive`` is Holdfast's own format, a zip of a session's files. It works on local files, so
it is the only package here that imports ``holdfast.store.local``; all others use a ``Store``.
``redaction`` finds secrets in text. ``plugins`` finds importers and exporters of other packages.
"""
