"""What every medium shares: how entries become lines, and how they are committed in groups.

This layer knows neither agents nor how files are laid out.

    format     how entries get numbers and parents, and how a line is made, sealed and read back
    ticket     the promise for one append
    writer     rounds: number, seal, hand to the medium, acknowledge
    worker     the thread for work that no caller waits for
    damage     what of a log cannot be read
    bounded    limits for reading what anybody may have written: lines, packed content

Where the lines are stored is described in ``holdfast.store.local``. The exact format is in
``docs/format.md``.
"""
