"""The pictures of the screens in ``docs/images``, made from the real program.

Run by ``python -m scripts.pictures [names …]``; it needs tmux. The program runs on a terminal of
its own, in a home of its own, with the rehearsal model; what the terminal shows is drawn. Ids and
names of folders are given, ages are made, so a second run writes the same bytes.

    stage    a home, a folder to work in, a terminal
    scenes   what is done on it, and when the picture is taken
    svg      a screen, drawn
"""
