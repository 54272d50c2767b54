"""The picker: choose one of all sessions on a full screen, with Textual.

Read ``app`` first: ``pick`` opens the screen and returns a choice. ``screen`` says which key does
what, and renames, tags and deletes. ``layout`` has the parts of the screen, ``table`` the list
(only visible lines are made), ``dialogs`` the small windows, ``preview`` the text about one
session.

``model`` holds the sessions, their order, the filter and what is hidden; it knows no screen.
``loader`` reads sessions and searches in threads, so that no key waits for a disk. ``driver`` takes
the terminal and returns it in its former state, whatever ends the picker.
"""
