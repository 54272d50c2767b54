"""The ``.holdfast`` archive: one session as a zip file, to be moved to another machine.

An archive is a copy of a session's files, byte for byte. That is why this package works on local
files and imports ``holdfast.store.local``.

Read ``manifest`` first: it says what is in an archive, and how large it may be. ``write`` makes
one; if secrets or paths are to be left out it uses ``sanitized_copy``, which writes every line
again with new checksums. ``read`` imports one: an archive may come from an attacker, so every name,
size and ratio is checked before anything is written, and a session is published whole or not at
all. ``compare`` says whether a session that exists already continues the one in the archive, and in
which lines an imported session is damaged.
"""
