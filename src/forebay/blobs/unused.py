"""Decides which blobs nobody points at, and believes no answer that does not fit the question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice

from forebay.blobs.ref import BlobRef
from forebay.errors import BadInput
from forebay.ids import shown

Keep = Callable[[str, Sequence[str]], Collection[str]]

_AT_ONCE = 500
_REMEDY = "Return those of the given sha256s that are in use, as the ledger's blobs_in_use does."


def check_keep(keep: object) -> None:
    if not callable(keep):
        raise BadInput(f"sweep() got {shown(keep)} where keep(tenant, sha256s) was expected.", remedy=_REMEDY)


def unused(candidates: Iterable[BlobRef], keep: Keep) -> Iterator[BlobRef]:
    for tenant, refs in groupby(candidates, key=lambda ref: ref.tenant):
        while batch := tuple(islice(refs, _AT_ONCE)):
            sha256s = tuple(ref.sha256 for ref in batch)
            in_use = _in_use(tenant, sha256s, keep(tenant, sha256s))
            yield from (ref for ref in batch if ref.sha256 not in in_use)


def _in_use(tenant: str, asked: tuple[str, ...], answer: object) -> set[str]:
    # Text is a collection too: an empty one would say that nothing is in use.
    if isinstance(answer, str | bytes) or not isinstance(answer, Collection):
        raise _misfit(tenant, answer, "which is not a collection of sha256s")
    known = set(asked)
    in_use = set()
    for sha256 in answer:
        if not isinstance(sha256, str) or sha256 not in known:
            raise _misfit(tenant, sha256, "which it was not asked about")
        in_use.add(sha256)
    return in_use


def _misfit(tenant: str, value: object, why: str) -> BadInput:
    return BadInput(f"The keep of a sweep named {shown(value)} for tenant {tenant}, {why}.", remedy=_REMEDY)
