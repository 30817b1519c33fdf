import pytest

from forebay.errors import BadInput
from forebay.rules import chunks
from forebay.rules.verdict import ErrorClass


@pytest.mark.parametrize(
    ("error_class", "page_count", "retry_count", "replanned"),
    [
        (ErrorClass.REPLAN, 2, 0, True),
        (ErrorClass.REPLAN, 1, 0, False),
        (ErrorClass.PARSER_CRASHED, 20, 0, True),
        (ErrorClass.PARSER_CRASHED, 1, 0, False),
        (ErrorClass.CORRUPTED_CONTENT, 3, 0, True),
        (ErrorClass.TIMEOUT, 20, 0, False),
        (ErrorClass.TIMEOUT, 20, 1, True),
        (ErrorClass.RATE_LIMITED, 20, 3, False),
        (ErrorClass.NETWORK_ERROR, 20, 3, False),
        (ErrorClass.AUTH, 20, 0, False),
        (ErrorClass.BUG, 20, 0, False),
    ],
)
def test_what_one_page_may_be_at_fault_for_makes_the_chunk_smaller(
    error_class: str, page_count: int, retry_count: int, *, replanned: bool
) -> None:
    assert chunks.replans(error_class, page_count=page_count, retry_count=retry_count) is replanned


def test_halving_ends_at_one_page() -> None:
    assert [chunks.smaller(20), chunks.smaller(5), chunks.smaller(2)] == [10, 3, 1]


def test_a_provider_that_says_how_many_pages_it_takes_is_believed() -> None:
    assert chunks.smaller(20, 15) == 10
    assert chunks.smaller(20, 4) == 4
    assert chunks.smaller(20, 0) == 1


def test_pieces_of_every_depth_have_indexes_of_their_own() -> None:
    made = {chunks.piece_index(depth, page) for depth in range(1, 6) for page in (1, 2, 500, chunks.MAX_PAGES)}
    assert len(made) == 20
    assert min(made) > chunks.MAX_PAGES


@pytest.mark.parametrize(("depth", "page"), [(0, 1), (1, 0), (21, 1), (1, chunks.MAX_PAGES + 1)])
def test_a_piece_that_cannot_be_is_refused(depth: int, page: int) -> None:
    with pytest.raises(BadInput):
        chunks.piece_index(depth, page)


def test_a_result_is_known_by_everything_that_makes_it() -> None:
    def key(document: str = "a" * 64, pages: tuple[int, int] = (1, 20), **other: object) -> str:
        known = {"processor": "local", "version": "1", "options": {"ocr": "auto", "dpi": 200}} | other
        return chunks.result_key(document, pages, **known)  # type: ignore[arg-type]

    assert key() == key(options={"dpi": 200, "ocr": "auto"})
    others = {
        key(document="b" * 64),
        key(pages=(1, 19)),
        key(processor="other"),
        key(version="2"),
        key(options={"ocr": "always", "dpi": 200}),
    }
    assert len(others | {key()}) == 6


def test_a_result_that_was_lost_is_followed_by_another_key() -> None:
    first = chunks.next_key("a" * 64, "b" * 64)
    assert len({first, "a" * 64, chunks.next_key("a" * 64, "c" * 64), chunks.next_key(first, "b" * 64)}) == 4


def test_a_result_that_came_to_nothing_is_known_by_the_last_entry_about_it() -> None:
    assert chunks.is_over('{"over": true}')
    assert not any(map(chunks.is_over, [None, "{}", '{"job": "over"}']))
