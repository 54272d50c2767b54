"""What several commands share of options, input and output.

``filter_options`` has the options that select sessions by time, folder, project, tag and state, and
``complete`` the shell completion of their values. ``confirm`` asks before something is changed.

A conversation is printed in two ways. ``conversation_text`` formats messages that are finished, for
``show``. ``plain_transcript`` prints a session that goes on, for ``tail``, ``attach`` and pipes: it
shows each character once, live or from the journal.

``line_input`` reads what a user types while output arrives, and ``nonblocking_stdout`` writes to a
terminal or pipe without waiting for a slow reader. Colours, the pager and the progress bar are in
``holdfast.tui.tty``; counts, sizes and times as text are in ``holdfast.keeper.text``.
"""
