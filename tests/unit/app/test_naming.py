from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.app.naming import Names, Source

OUT = Path("/out")
SUFFIXES = [".md", ".json"]


def names(*paths: str, folder: Path | None = OUT) -> dict[str, str]:
    made = Names(folder, SUFFIXES)
    made.give([Source(Path(path)) for path in paths])
    return {path: str(made.of(Path(path))) for path in paths}


def test_a_document_alone_has_its_name_without_the_ending() -> None:
    assert names("/in/scan.pdf") == {"/in/scan.pdf": "/out/scan"}
    assert names("/in/scan.pdf", folder=None) == {"/in/scan.pdf": "/in/scan"}


@pytest.mark.parametrize("order", list(permutations(["/a/scan.pdf", "/a/scan.png", "/b/scan.pdf", "/b/other.pdf"])))
def test_those_that_would_be_called_the_same_are_told_apart_whatever_their_order(order: tuple[str, ...]) -> None:
    assert names(*order) == {
        "/a/scan.pdf": "/out/a/scan.pdf",
        "/a/scan.png": "/out/scan.png",
        "/b/scan.pdf": "/out/b/scan.pdf",
        "/b/other.pdf": "/out/other",
    }


def test_the_folders_below_the_one_that_was_named_are_kept() -> None:
    made = Names(OUT, SUFFIXES)
    told = made.give([Source(Path("/in/2023/scan.pdf"), Path("2023")), Source(Path("/in/2024/scan.pdf"), Path("2024"))])
    assert told == []
    assert made.of(Path("/in/2023/scan.pdf")) == OUT / "2023" / "scan"


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    assert set(names("/in/Scan.pdf", "/in/scan.png").values()) == {"/out/Scan.pdf", "/out/scan.png"}


def test_a_name_that_another_was_given_in_full_is_not_given_twice() -> None:
    found = names("/in/scan.pdf", "/in/scan.png", "/in/scan.pdf.png")
    assert found["/in/scan.pdf.png"] == "/out/scan.pdf.png"
    assert len(set(found.values())) == 3


def test_no_output_takes_the_place_of_a_document() -> None:
    assert names("/out/scan.md", "/out/scan.json") == {
        "/out/scan.md": "/out/scan.md",
        "/out/scan.json": "/out/scan.json",
    }


def test_who_comes_later_gives_way() -> None:
    made = Names(OUT, SUFFIXES)
    assert made.give([Source(Path("/a/scan.pdf"))]) == []
    assert made.give([Source(Path("/b/scan.pdf"))]) == [Path("/b/scan.pdf")]
    assert (made.of(Path("/a/scan.pdf")), made.of(Path("/b/scan.pdf"))) == (OUT / "scan", OUT / "scan.pdf")
    assert made.give([Source(Path("/a/scan.pdf"))]) == []


def test_beside_its_twin_a_document_has_its_whole_name_even_if_it_is_handed_in_alone(tmp_path: Path) -> None:
    for name in ("scan.pdf", "scan.png", "other.pdf", "other.txt"):
        (tmp_path / name).touch()
    assert Names(None, SUFFIXES).of(tmp_path / "scan.pdf") == tmp_path / "scan.pdf"
    assert Names(None, SUFFIXES).of(tmp_path / "other.pdf") == tmp_path / "other"


_NAMES = st.builds(
    "/in/{}{}{}".format, st.sampled_from(["", "a/", "b/", "a/b/"]), st.sampled_from(["x", "X", "x.pdf", "x.md"]),
    st.sampled_from(["", ".pdf", ".png", ".md", ".PDF"]),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(_NAMES, unique_by=str.casefold, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_no_two_outputs_are_the_same_and_order_does_not_matter(paths: list[str], chance: object) -> None:
    found = names(*paths)
    written = [f"{name}{suffix}".casefold() for name in found.values() for suffix in SUFFIXES]
    assert len(set(written)) == len(written)
    chance.shuffle(paths)  # type: ignore[attr-defined]
    assert names(*paths) == found
