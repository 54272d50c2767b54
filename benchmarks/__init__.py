"""What the store costs, as ratios against a floor measured in the same run.

Run by ``python -m benchmarks``. Disks and neighbours are noisy, so absolute figures are shown but
never judged: floor and store take turns, round after round, and the median of the rounds' ratios
is held against the goal.

    harness        rounds, ratios, scratch folders, progress
    report         the table, the JSON file, facts about the machine
    conversation   messages of a realistic shape, and long histories
    append         durable appends: one session, deep in a session, 64 sessions; bulk
    load           all messages of a session
    resume         opening a session of a gigabyte (``resume_child`` is the process that does it)
    listing        ten thousand sessions: warm, after a change, without the index
    search         a gigabyte of transcripts (``search_child`` builds the index)
    doctor         everything in a home, looked at
    startup        the import
    size           bytes on disk
    loop           the agent loop around a provider
    terminal       the chat: to a prompt, bytes, processor time (``program`` is one on a terminal)
"""
