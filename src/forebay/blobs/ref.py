"""Names a blob: whose it is, and the sha256 of its bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from forebay.errors import BadInput
from forebay.ids import shown
from forebay.model.names import check_count, check_name
from forebay.model.task import check_blob

_KEY = re.compile(r"blobs/(?P<tenant>[^/]+)/(?P<shard>[0-9a-f]{2})/(?P<sha256>(?P=shard)[0-9a-f]{62})")
_MAX_SIZE = 1 << 50


@dataclass(frozen=True, slots=True, order=True)
class BlobRef:
    """Checked when it is made, so that no reference can leave its tenant's folder.

    Two references are equal when tenant and sha256 are; `size` is None when only the name is known,
    and otherwise one more thing that a stored blob must match.
    """

    tenant: str
    sha256: str
    size: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant)
        check_blob(self.sha256)
        if self.size is not None:
            check_count("size", self.size, most=_MAX_SIZE)

    @property
    def shard(self) -> str:
        return self.sha256[:2]

    @property
    def key(self) -> str:
        return f"blobs/{self.tenant}/{self.shard}/{self.sha256}"

    def __str__(self) -> str:
        return f"blob {self.sha256} of tenant {self.tenant}"


def check_ref(value: object) -> None:
    if not isinstance(value, BlobRef):
        raise BadInput(
            f"{shown(value)} is not a reference to a blob.",
            remedy="Give the BlobRef that put() returned, or BlobRef(tenant, sha256).",
        )


def ref_of_key(key: str, size: int) -> BlobRef | None:
    """The blob that a listed key stands for, or None for what somebody else put there."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    try:
        return BlobRef(match["tenant"], match["sha256"], size)
    except BadInput:
        return None
