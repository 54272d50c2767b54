"""Secrets in text: found and replaced by marks such as ``[redacted: github-token 1]``.

Read ``redactor`` first: it combines the detectors below, for plain text and for decoded JSON, and
remembers what it found. ``key_formats`` knows keys and tokens by their vendors' formats,
``pem_blocks`` private keys. ``assignments`` finds values without a format by the name before them
(``password = …``); ``entropy`` decides whether such a value looks random.

``messages`` applies a redactor to all parts of a message. ``local_paths`` removes what says where
on a machine a session was.
"""
