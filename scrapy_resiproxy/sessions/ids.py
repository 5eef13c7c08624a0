"""Session ids: hashed from what they stand for into the alphabet that a vendor accepts.

A target's name, a user's own session key or a uuid never reaches the proxy as it is: most vendors would
read the separators in it as grammar.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from string import ascii_lowercase, digits
from typing import Final


@dataclass(frozen=True, slots=True)
class IdFormat:
    """The ids that a vendor accepts: *length* characters of *alphabet*, the first one of *first*."""

    alphabet: str
    length: int
    first: str

    def spell(self, number: int) -> str:
        """The id that *number*, a hash of 256 bits, stands for."""
        number, index = divmod(number, len(self.first))
        letters = [self.first[index]]
        for _ in range(self.length - 1):
            number, index = divmod(number, len(self.alphabet))
            letters.append(self.alphabet[index])
        return "".join(letters)


WORD: Final = IdFormat(ascii_lowercase + digits, 8, ascii_lowercase)
"""What every vendor with free-form ids takes; several refuse longer ones, capitals or a leading digit."""

NUMBER: Final = IdFormat(digits, 9, digits[1:])
"""For vendors whose ids are numbers of at most nine digits."""

HEX16: Final = IdFormat(digits + "abcdef", 16, digits + "abcdef")


class Hasher:
    """Hashes keyed with the salt of a crawl: the same salt gives the same ids in any process."""

    def __init__(self, salt: str) -> None:
        if not salt:
            raise ValueError("the salt of the sessions is empty; it must be a random string")
        self._key = hashlib.sha256(salt.encode("utf-8", "surrogatepass")).digest()

    def number(self, *parts: str | int | None) -> int:
        """A number of 256 bits; different *parts* give different ones, wherever their borders lie."""
        return int.from_bytes(self._digest(parts, 32))

    def alias(self, *parts: str | int | None) -> str:
        """Eight hexadecimal characters that may be shown; nothing can be read from them."""
        return self._digest(("alias", *parts), 4).hex()

    def _digest(self, parts: tuple[str | int | None, ...], size: int) -> bytes:
        return hashlib.blake2b(json.dumps(parts).encode(), key=self._key, digest_size=size).digest()
