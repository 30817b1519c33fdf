"""The label of a slot names what its task works on, and the task itself."""

from __future__ import annotations

import pytest

from forebay import ids
from forebay.limits.works_on import WorksOn, split_label
from forebay.model.names import LABEL_LENGTH, check_label


@pytest.mark.parametrize("job_id", [None, "kgbpyyvfvvtr76dptkljpodifa"])
@pytest.mark.parametrize("text", ["", "scan.pdf p. 1-20", "a #b", "ü" * LABEL_LENGTH, "x" * LABEL_LENGTH])
@pytest.mark.parametrize("kind", ["ocr.docai", "k" * 64])
def test_what_is_written_is_read_again(job_id: str | None, text: str, kind: str) -> None:
    task = WorksOn(job_id, ids.random_id())
    label = task.label(kind, text)
    assert len(check_label("label", label)) <= LABEL_LENGTH
    shown, found = split_label(label)
    assert found == task
    assert shown.endswith(kind if not text else f"({kind})")
    assert shown.startswith(text[:20])


def test_a_label_of_a_callers_own_is_left_as_it_is() -> None:
    for label in ("", "scan.pdf", "page #", "tag #UPPER"):
        assert split_label(label) == (label, None)
