"""Draw pictures: ``python -m scripts.pictures [names …]``; all without a name."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts.pictures.scenes import SCENES
from scripts.pictures.stage import Stage
from scripts.pictures.svg import drawn

_FOLDER = Path(__file__).parents[2] / "docs" / "images"


def main(names: list[str]) -> int:
    """Draw what was asked for; return the exit code."""
    if unknown := set(names) - set(SCENES):
        print(f"no such picture: {', '.join(sorted(unknown))}; there are: {', '.join(SCENES)}")
        return 2
    if shutil.which("tmux") is None:
        print("pictures are taken of a terminal in tmux, which is not installed")
        return 1
    for name in names or SCENES:
        scene = SCENES[name]
        with Stage(scene.columns, scene.rows) as stage:
            picture = drawn(scene.play(stage), scene.title, scene.description)
        path = _FOLDER / f"{name}.svg"
        changed = not path.exists() or path.read_text(encoding="utf-8") != picture
        path.write_text(picture, encoding="utf-8")
        print(f"{path.name}: {'drawn' if changed else 'as before'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
