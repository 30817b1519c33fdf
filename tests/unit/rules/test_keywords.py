from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.rules.keywords import keywords
from forebay.rules.stopwords import stopwords


def test_words_that_come_often_and_stand_in_headings_come_first() -> None:
    text = "# The turbine\n\nThe basin feeds it. The basin fills. A basin would have been a basin.\n"
    assert keywords(text, language="en", most=2) == ["basin", "turbine"]


def test_a_heading_counts_as_much_as_three_lines_of_text() -> None:
    assert keywords("# turbine\n\nbasins basins\n", language="en", most=1) == ["turbine"]
    assert keywords("# turbine\n\nbasins basins basins basins\n", language="en", most=1) == ["basins"]


def test_a_text_has_five_keywords_unless_more_are_asked_for() -> None:
    text = "harbour lantern meadow quarry orchard thicket viaduct"
    assert (len(keywords(text)), len(keywords(text, most=6))) == (5, 6)


def test_a_word_is_written_as_it_mostly_is() -> None:
    assert keywords("Das Stauwerk und das Stauwerk, STAUWERK.", language="de", most=1) == ["Stauwerk"]


def test_addresses_numbers_and_short_words_are_no_keywords() -> None:
    found = keywords("See https://example.org/path [it](http://x.y/zzzz) 12345 to of NATO &amp;nbsp;", most=9)
    assert found == ["NATO", "nbsp"]


def test_a_script_without_spaces_has_keywords_too() -> None:
    assert keywords("水库 水库 发电", most=1) == ["水库"]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "it", "pt", "nl", "xx", None, "de-CH"])
def test_every_language_leaves_out_its_own_small_words(language: str | None) -> None:
    assert {"without", "this"} <= stopwords(language)
    assert ("nicht" in stopwords(language)) == (language not in {"en", "fr", "es", "it", "pt", "nl"})


@given(st.text(max_size=400), st.integers(0, 8))
def test_keywords_are_words_of_the_text_each_once(text: str, most: int) -> None:
    found = keywords(text, most=most)
    assert len({each.casefold() for each in found}) == len(found) <= most
    assert all(each in text for each in found)
    assert found == keywords(text, most=most)
