"""The bash tool: shell commands that survive the agent.

A command runs under a small program, ``wrapper``, which writes output and exit status to files.
After a crash the next agent reads these files instead of running the command again.

Read ``bash`` first, the tool itself. ``process`` starts the wrapper, waits for it and kills it with
all its children. ``spool`` is the folder of these files and what it says after a crash. ``output``
follows the output as it grows and cuts it to what a model is shown.
"""
