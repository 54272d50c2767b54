"""``holdfast drill``: crash the agent on purpose in a temporary home and check what is left.

Users run this on their own machine; the crash laboratory in ``tests/crash`` goes further.

In reading order:

    scenarios      the faults (kill -9, a closed terminal, a full disk, …), and how to resume
    scripted_turn  a turn whose every character is known, and the steps that all scenarios share
    sandbox        the temporary home, configuration and project that a drill runs in
    pty            the program on a terminal or pipe of ours, with every byte that it showed
    full_disk      a file system that runs out of space during a turn, and has space again later
    checks         what was shown compared with what was saved, and whether a tool ran twice
    results        the values that come out; ``svg_report`` draws them
"""
