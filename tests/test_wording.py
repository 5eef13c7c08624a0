"""Numbers in sentences."""

from __future__ import annotations

import pytest

from scrapy_resiproxy.wording import counted, lasting, over


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("letter",), "0 letters"),
        (1, ("letter",), "1 letter"),
        (2, ("letter",), "2 letters"),
        (1, ("retry", "retries"), "1 retry"),
        (2, ("retry", "retries"), "2 retries"),
    ],
)
def test_one_is_no_plural(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0 s"), (6.4, "6 s"), (119.0, "119 s"), (120.0, "2 min"), (7199.0, "120 min"), (9000.0, "2.5 h")],
)
def test_a_duration_has_the_unit_of_its_size(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


@pytest.mark.parametrize(
    ("number", "seconds", "said"),
    [
        (7, 6.0, "in 6 s"),
        (7, 0.0, "in 0 s"),
        (100, 599.0, "in 10 min"),
        (100, 600.0, "in 10 min, 600 per hour"),
        (4213, 3600.0, "in 60 min, 4,213 per hour"),
    ],
)
def test_no_hour_is_made_of_less_than_ten_minutes(number: int, seconds: float, said: str) -> None:
    assert over(number, seconds) == said
