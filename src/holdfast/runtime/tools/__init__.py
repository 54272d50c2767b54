"""What the model can do on this machine.

Read ``base`` first: what the agent asks of a tool, and what it gets back. ``registry`` lists the
tools. Each has its file: ``read``, ``write``, ``edit``, ``glob``, ``grep``; ``bash`` is in
``shell/``.

``workspace`` is the only module of the runtime that reads and changes the user's files; it checks
paths and follows no links out of the workspace. ``file_change`` records a change so that ``undo``
can revert it, and ``read_tracking`` knows whether a file has changed since the model read it.
``autorun`` lists files that other programs execute, such as git hooks: changing one needs approval.

``glob_match``, ``gitignore`` and ``text_encoding`` are what their names say. ``grep_worker`` runs
in a process of its own, because a regular expression can take forever; ``subprocess_source`` starts
it.
"""
