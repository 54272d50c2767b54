"""The protocol between a runner and its clients, over a unix socket.

Read in this order: ``messages`` (every request and event, and their bytes), ``socket_path`` (where
the socket is, and who may connect), ``server`` (accepts clients and passes on requests),
``broadcast`` and ``subscriber`` (events to all clients, each with a bounded queue), ``client`` (one
connection), ``reconnect`` (the client that everything uses: it survives hang-ups),
``transcript_stream`` (entries and live text as one transcript). Nothing here knows how a turn runs.
"""
