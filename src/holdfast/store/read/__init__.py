"""From entries to what a session shows: state, branch, messages, texts.

Read ``fold`` first: the pure function from entries to state. Everything that is shown is derived by
it, for entries just appended and for entries read from a log.

    resume          the state of a log, reading only as much of its end as needed
    branch          messages and checkpoints from the head back to the root
    session_reader  what an open session shows, from its writer or from a snapshot
    follower        new entries and live text as they come, from any process
    text_formats    a conversation as one text: JSON, JSON Lines or Markdown
    markdown        the Markdown; ``markdown_escape`` makes the text of others safe in it
"""
