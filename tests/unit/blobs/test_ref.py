import hashlib

import pytest

from forebay.blobs import BlobRef
from forebay.blobs.ref import ref_of_key
from forebay.errors import BadInput

SHA = hashlib.sha256(b"x").hexdigest()


def test_a_key_holds_tenant_shard_and_sha256() -> None:
    assert BlobRef("acme", SHA, 1).key == f"blobs/acme/{SHA[:2]}/{SHA}"


def test_references_to_the_same_blob_are_equal_whether_or_not_the_size_is_known() -> None:
    assert BlobRef("acme", SHA, 1) == BlobRef("acme", SHA)
    assert len({BlobRef("acme", SHA, 1), BlobRef("acme", SHA)}) == 1
    assert BlobRef("acme", SHA) != BlobRef("other", SHA)


@pytest.mark.parametrize("tenant", ["", ".", "..", "a/b", "../a", "A", "a b", "a\0", "ä", "x" * 65, None, 1])
def test_a_tenant_that_could_leave_its_folder_is_refused(tenant: str) -> None:
    with pytest.raises(BadInput):
        BlobRef(tenant, SHA)


@pytest.mark.parametrize("sha256", ["", SHA[:-1], SHA.upper(), SHA + "0", "../" + SHA[3:], SHA[:-1] + "\n", None, b""])
def test_a_sha256_that_is_none_is_refused(sha256: str) -> None:
    with pytest.raises(BadInput):
        BlobRef("acme", sha256)


@pytest.mark.parametrize("size", [-1, 1.5, "1", True])
def test_a_size_that_is_none_is_refused(size: int) -> None:
    with pytest.raises(BadInput):
        BlobRef("acme", SHA, size)


def test_a_listed_key_becomes_its_reference_again() -> None:
    ref = BlobRef("acme", SHA, 1)
    assert ref_of_key(ref.key, 1) == ref


@pytest.mark.parametrize(
    "key",
    [
        f"blobs/acme/{SHA}",
        f"blobs/acme/zz/{SHA}",
        f"blobs/acme/00/{SHA}",
        f"blobs/Acme/{SHA[:2]}/{SHA}",
        f"blobs/../{SHA[:2]}/{SHA}",
        f"other/acme/{SHA[:2]}/{SHA}",
        f"blobs/acme/{SHA[:2]}/{SHA}.tmp",
        "",
    ],
)
def test_a_foreign_key_is_no_reference(key: str) -> None:
    assert ref_of_key(key, 1) is None
