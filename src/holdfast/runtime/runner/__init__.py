"""The runner: a process that holds one session and runs its turns, with or without clients.

In reading order:

    launch_options  what a runner is started with
    spawn           start one in the background and connect to it; ``in_process`` runs one here
    main            the process: from its start to its exit; ``start_lock`` lets one start at a time
    runner          the runner itself: one turn after the other, and when it exits
    requests        one method per request of a client
    queue           which prompt or job is next
    approvals       tool calls that wait for the user
    status          what clients are told about the runner's state
    model_switch    another model, or another key, while it runs

``notify`` runs the user's command when a turn ends or waits. ``logind`` checks whether logging out
would kill background processes.
"""
