"""Screens: the chat and the session picker, and plain terminal output.

    app      the terminal program: chats one after the other, with the picker between them
    target   which session a chat is about, and how a chat ended
    chat/    the chat: an input area at the bottom of the terminal, finished text above it
    picker/  the picker: a full screen with a table of sessions
    tty      plain output, which commands use too: colours, pager, progress bar

The chat uses prompt_toolkit and rich, the picker Textual; ``tty`` needs neither. How a turn runs
and how it is saved is unknown here: the chat is a client of a runner.
"""
