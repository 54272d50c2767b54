"""From a session to a file, the same for every format.

Read ``transcript`` first: it reads one branch of a session in a stream, and applies depth,
redaction and the removal of local paths before any format sees a message. ``depth`` says which
parts of a message each depth shows. ``export`` chooses the exporter and writes its output to a
file, complete or not at all. The formats themselves are in ``holdfast.exchange.exporters``.
"""
