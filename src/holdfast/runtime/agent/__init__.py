"""One agent: a session, a model, tools and rules, and the turns that it runs.

Every step is an entry in the journal before its effect is shown or the next step begins. So a turn
that was interrupted anywhere can be completed from the journal alone.

In reading order:

    agent          the surface: run a prompt, continue, cancel, compact, rewind
    build          puts an agent together from settings and options
    services       what a turn uses: session, provider, tools, rules, someone to ask
    turn           one turn: request, answer, tool calls, until the model is done
    tool_calls     the calls of one answer: approved, recorded, run, answered
    recovery       a turn that a crash interrupted: completed or continued
    context        what the provider gets; ``pairing`` repairs calls without results
    summarize      replaces old messages by a summary when the context is full
    rewind         back to an earlier entry, with or without files; ``rewind_points`` lists entries
    foreign        what a session from elsewhere may not do; ``origin`` explains it to the user

``limits`` and ``prices`` stop a run that costs too much, ``cancellation`` ends one on request, and
``system_prompt`` writes the prompt that comes first.
"""
