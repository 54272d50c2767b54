from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.model.codec import encode_body


@pytest.fixture
def refused():
    """Return a function that tries to encode a body and returns the error that it must get."""

    def encode(body: object) -> UsageError:
        with pytest.raises(UsageError) as caught:
            encode_body(body)  # type: ignore[arg-type]
        return caught.value

    return encode
