"""Pure values: messages, entries, live events, identifiers, and their JSON. No I/O.

In reading order:

    message      what a model sees: roles and content parts
    entry        what a journal line says: an envelope, and one struct per type of body
    event        what is being streamed right now
    state        what a session has come to: the result of the fold
    codec        bytes to values and back, with everything that it does not understand
    ids          names of sessions, keys and streams
    lock_holder  which process holds a session's lock
    sanitize     text of others, made safe for a terminal
"""
