"""The agent: it runs turns, asks models, calls tools, and survives its terminal.

In reading order:

    agent/      one turn from prompt to end, recovery after a crash, rewind, context and summaries
    runner/     the process that holds a session and runs its turns, with or without clients
    protocol/   the messages between a runner and its clients, and the clients' connection
    policy/     which tool calls need the user's approval
    providers/  models: Anthropic, OpenAI and compatible servers, and the offline rehearsal model
    tools/      what the model can do: read, write, edit, glob, grep, bash
    config/     settings, options of a run, credentials, trusted projects

``runner`` uses ``agent``; ``agent`` uses providers, tools, policy and config. ``protocol`` knows
neither runner nor agent, so a client imports nothing that runs a turn. Screens are in
``holdfast.tui``; how an entry becomes durable is in ``holdfast.store``.
"""
