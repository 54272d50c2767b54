"""What every medium shares: how entries become lines, and how they are committed in groups.

This layer knows nothing of agents, and nothing of files.

    format     how entries get numbers and parents, and how a line is made, sealed and read back
    ticket     the promise for one append
    writer     rounds: number, seal, hand to the medium, acknowledge
    worker     the thread that does what nobody waits for
    damage     what of a log cannot be read

Where the lines are stored is told in ``holdfast.store.local``. The exact format is in
``docs/format.md``.
"""
