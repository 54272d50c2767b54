"""``holdfast`` without a command: the chat, and ``-p`` for one prompt.

Read ``command`` first: it has the options and chooses between the ways below. ``options`` checks
which options contradict each other; ``select_session`` finds or makes the session that they mean.

    chat           the chat on a terminal, with or without a screen
    headless       ``-p`` in this process: prompts in, answers out, an exit code
    remote         ``-p`` for a session that has a runner: as a client of the runner
    detach         ``-p --detach``: hand the prompt to a runner and exit
    stdin          where prompts come from: arguments, standard input, lines of JSON
    output         what is written: answers to standard output, the rest to standard error
    result         the object that is written last, and the exit code that belongs to it
    signals        what SIGINT and SIGTERM do to a run

``runner_connection`` gives a command a connection to the session's runner, and says what is
different where Holdfast is the first process of a container.
"""
