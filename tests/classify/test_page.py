"""What is read off a page's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.classify.page import SMALL, Survey, is_stub, survey, title_of


@pytest.mark.parametrize(
    ("body", "title"),
    [
        pytest.param(b"<title> Shop </title>", b"shop", id="stripped-and-lower-case"),
        pytest.param(b"<TITLE lang=en>Shop</TITLE>", b"shop", id="upper-case-with-an-attribute"),
        pytest.param(b"<Title>Shop</Title>", b"shop", id="mixed-case"),
        pytest.param(b"<title>A &amp; B</title>", b"a & b", id="entities"),
        pytest.param(b"<title>&#1044;</title>", b"?", id="letters-of-no-concern"),
        pytest.param(b"<p>no title</p>", b"", id="none"),
        pytest.param(b"<title", b"", id="never-opened"),
        pytest.param(b"<title>Shop", b"shop", id="never-closed"),
        pytest.param(b" " * 70_000 + b"<title>Shop</title>", b"", id="too-far-down"),
    ],
)
def test_the_title(body: bytes, title: bytes) -> None:
    assert title_of(body) == title


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        pytest.param(b"", Survey(0, False, 0), id="empty"),
        pytest.param(b"a  b\n<b>c</b>", Survey(5, False, 0), id="white-space-counts-once"),
        pytest.param(b"<SCRIPT>var a = '<p>'</SCRIPT>x", Survey(1, False, 1), id="scripts-are-not-seen"),
        pytest.param(
            b"<style>p{}</style><noscript>y</noscript><title>z</title>x", Survey(1, False, 0), id="nor-styles"
        ),
        pytest.param(b"<!-- a <p>b --> x", Survey(1, False, 0), id="nor-comments"),
        pytest.param(b"x<script>y", Survey(1, False, 1), id="an-unclosed-script-hides-the-rest"),
        pytest.param(b"x<!-- y", Survey(1, False, 0), id="so-does-a-comment"),
        pytest.param(b"x<p", Survey(1, False, 0), id="and-a-tag"),
        pytest.param(b"1 < 2 > 0", Survey(3, False, 0), id="a-lonely-bracket"),
        pytest.param(b"<input name=q>", Survey(0, True, 0), id="a-field"),
        pytest.param(b"<input type='hidden'><input type=submit>", Survey(0, False, 0), id="no-field"),
        pytest.param(b"<select></select>", Survey(0, True, 0), id="a-choice"),
        pytest.param(b"<textarea></textarea>", Survey(0, True, 0), id="an-area"),
    ],
)
def test_what_a_reader_sees(body: bytes, seen: Survey) -> None:
    assert survey(body) == seen


def test_a_long_page_is_no_stub() -> None:
    assert is_stub(b"<p>" * 10)
    assert not is_stub(b"<p>" * SMALL)
    assert not is_stub(b"x" * 300)


@given(
    st.lists(
        st.sampled_from([b"<", b">", b"<!--", b"-->", b"<script", b"</script>", b"<input", b"x ", b"title"]),
        max_size=60,
    )
)
def test_no_markup_makes_it_raise(parts: list[bytes]) -> None:
    body = b"".join(parts)
    seen = survey(body)
    assert 0 <= seen.text <= len(body)
    assert title_of(body) == title_of(body).strip()
