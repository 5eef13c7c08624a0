"""The pages that the benchmarks serve and scan."""

from __future__ import annotations

_HEAD = b'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>All things</title></head><body>\n'
_ROW = (
    b'<div class="item"><a href="/item/1">Walnut lamp 1</a><p>Made in small series, packed without plastic.</p></div>\n'
)
_TAIL = b"</body></html>"


def page(size: int) -> bytes:
    """An ordinary shop's page of *size* bytes."""
    return (_HEAD + _ROW * (size // len(_ROW) + 1))[: size - len(_TAIL)] + _TAIL
