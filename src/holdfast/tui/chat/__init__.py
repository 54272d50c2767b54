"""The chat: finished text scrolls up in the terminal, the input area stays at the bottom.

Read ``chat`` first: it connects the parts below. ``connect`` gets a connection to the session's
runner, ``events`` handles what the runner sends, ``outbox`` sends prompts and shows the queue.

Shown for good: ``transcript_view`` decides what of a session is printed, ``render`` formats it,
``markdown_stream`` finds blocks that are complete while the rest is being streamed. ``welcome`` is
the first thing on the screen, ``exit`` the last question.

At the bottom: ``input_area`` draws input, queue, questions and status; ``inline_app`` handles a
change of the terminal's width; ``key_bindings``, ``completion``, ``choices`` and ``status_line``
are its parts. ``terminal_notify`` sends notifications and clipboard text through the terminal.

Commands with a slash are in ``commands``; the larger ones have a file: ``rewind_command``,
``stats_command``, ``trust_command``.
"""
