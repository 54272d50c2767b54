"""Pure values: messages, entries, live events, identifiers, and their JSON. No I/O.

message   what a model sees: roles and content parts
entry     what a journal line says, one struct for each type
event     what is being streamed right now
state     what a session has come to: the result of the fold
codec     bytes to values and back, faithful to what it does not understand
ids       names of sessions, keys and streams
holder    who holds a session's lock
"""
