"""What a prompt brings along: images that it names with ``@``."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.journal.files import Files
from holdfast.model.message import File, Image, Text

_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_MOST_BYTES = 5_000_000  # what providers take


def content_of(text: str, folder: Path) -> list[Text | Image | File]:
    """Return a prompt as parts; blocks. Text files are left to the model to read.

    Raises:
        UsageError: an image is too large, or cannot be read.
    """
    parts: list[Text | Image | File] = [Text(text=text)]
    for quoted, plain in _NAMED.findall(text):
        name = quoted or plain
        media_type = _IMAGES.get(Path(name).suffix.lower())
        path = folder / Path(name).expanduser()
        if media_type is not None and path.is_file():
            parts.append(Image(media_type=media_type, data=_encoded(path)))
    return parts


def _encoded(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES:,} bytes: make it smaller.")
        return base64.b64encode(Files().read_whole(path)).decode()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
