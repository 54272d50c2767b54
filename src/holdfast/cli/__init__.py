"""The command line, and the place where all other packages are put together.

In reading order:

main        finds the command, imports only that one, turns errors into sentences and exit codes
commands/   one file per command: reads the arguments, calls the keeper, prints text or JSON
run/        what ``holdfast`` does without a command: the chat, and ``-p``
ui/         what commands share: options, colours, columns, times, the pager, progress, questions
"""
