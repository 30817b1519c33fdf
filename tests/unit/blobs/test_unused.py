import hashlib
from collections.abc import Callable, Collection, Sequence

import pytest

from forebay.blobs import BlobRef, Blobs, open_blobs
from forebay.blobs.unused import unused
from forebay.errors import BadInput
from forebay.model.task import NewTask
from forebay.stores.address import open_ledger

LATER = 4_000_000_000


@pytest.fixture
def blobs() -> Blobs:
    return open_blobs("memory://")


def refs(tenant: str, count: int) -> list[BlobRef]:
    return [BlobRef(tenant, hashlib.sha256(str(number).encode()).hexdigest()) for number in range(count)]


def test_a_sweep_wired_to_the_ledger_takes_only_what_it_does_not_point_at(blobs: Blobs) -> None:
    ledger = open_ledger("memory://")
    used, unused_one, of_another = blobs.put("a", b"used"), blobs.put("a", b"unused"), blobs.put("b", b"used")
    ledger.submit([NewTask(kind="ocr", tenant="a", payload_blob=used.sha256)])
    assert blobs.sweep(ledger.blobs_in_use, now=LATER).blob_count == 2
    assert [blobs.exists(ref) for ref in (used, unused_one, of_another)] == [True, False, False]


def test_each_question_is_about_one_tenant_and_some_hundred_blobs() -> None:
    asked: list[tuple[str, int]] = []

    def keep(tenant: str, sha256s: Sequence[str]) -> set[str]:
        asked.append((tenant, len(sha256s)))
        return set()

    candidates = refs("a", 501) + refs("b", 2) + refs("c", 500)
    assert list(unused(candidates, keep)) == candidates
    assert asked == [("a", 500), ("a", 1), ("b", 2), ("c", 500)]


def test_without_candidates_nobody_is_asked() -> None:
    assert list(unused([], lambda *_: pytest.fail("asked"))) == []


@pytest.mark.parametrize("kind", [set, list, tuple, frozenset, dict.fromkeys])
def test_any_collection_of_the_sha256s_is_an_answer(kind: Callable[[list[str]], Collection[str]]) -> None:
    candidates = refs("a", 3)
    kept = candidates[1].sha256
    assert list(unused(candidates, lambda *_: kind([kept]))) == [candidates[0], candidates[2]]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "",
        b"",
        "0" * 64,
        ["0" * 64],
        [None],
        [[]],
        [BlobRef("t", hashlib.sha256(b"bytes").hexdigest())],
        [hashlib.sha256(b"bytes").digest()],
        [hashlib.sha256(b"bytes").hexdigest(), "0" * 64],
        [hashlib.sha256(b"bytes").hexdigest().upper()],
        iter([hashlib.sha256(b"bytes").hexdigest()]),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_an_answer_that_does_not_fit_the_question_deletes_nothing(blobs: Blobs, answer: Collection[str]) -> None:
    stored = [blobs.put("t", b"bytes"), blobs.put("t", b"other bytes")]
    with pytest.raises(BadInput, match="blobs_in_use"):
        blobs.sweep(lambda *_: answer, now=LATER)
    assert all(blobs.exists(ref) for ref in stored)
