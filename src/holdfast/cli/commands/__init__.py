"""The commands, one file per command: ``holdfast ls`` is in ``ls.py``.

Each file has a function ``command`` with its arguments, its help and its output; ``cli.main`` finds
it by name and imports no other file. What a command does with sessions is in ``holdfast.keeper``,
so that other faces do the same. Here it is turned into text, ``--json`` and an exit code.

Read ``ls`` first: it is the usual shape (options, a call of the keeper, a list or JSON, a note
about what the list hides). ``show`` and ``search`` print conversations, ``rm``, ``restore`` and
``gc`` change what is stored, ``attach``, ``send``, ``approve``, ``cancel`` and ``stop`` talk to a
runner.
"""
