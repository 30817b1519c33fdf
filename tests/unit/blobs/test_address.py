from pathlib import Path

import pytest

from forebay.blobs import open_blobs
from forebay.errors import BadName


@pytest.mark.parametrize(
    "address",
    [
        "file:///var/lib/forebay",
        "s3://bucket",
        "s3://bucket/",
        "s3://my-bucket.example/some/prefix",
        "gs://bucket/prefix",
        "az://container/prefix",
        "memory://",
    ],
)
def test_an_allowed_address_is_opened_without_touching_anything(address: str) -> None:
    assert open_blobs(address).address.startswith(address.partition(":")[0])


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/var/lib/forebay",
        "relative/folder",
        "file:relative",
        "file://relative/folder",
        "file://localhost/var/lib/forebay",
        "file://",
        "file:///",
        "file:///a/../b",
        "file:///a%00b",
        "file:///a?b=c",
        "file:///a#b",
        "dynamodb://table",
        "sqlite:///blobs.db",
        "http://host/bucket",
        "memory://name",
        "S3",
        "s3:",
        "s3://",
        "s3://ab",
        "s3://bucket/../other",
        "s3://bucket/./x",
        "s3://bucket//x",
        "s3://bucket/a b",
        "s3://bucket/a%2e",
        "s3://bucket:80/a",
        "s3://bucket:port/a",
        "s3://bucket/a?region=x",
        "s3://[bucket/a",
        "s3://bucket/a\n",
        " s3://bucket/a",
        None,
        b"s3://bucket",
        7,
    ],
)
def test_any_other_address_is_refused_with_what_is_allowed(address: str) -> None:
    with pytest.raises(BadName, match=r"file:///absolute/folder, s3://bucket/prefix"):
        open_blobs(address)


def test_keys_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(BadName) as caught:
        open_blobs("s3://AKIA123:hush@bucket/prefix")
    assert "hush" not in str(caught.value)
    assert "AKIA123" not in str(caught.value)


def test_opening_a_folder_makes_nothing(tmp_path: Path) -> None:
    open_blobs((tmp_path / "new").as_uri())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_space_and_a_percent_sign_is_the_one_that_was_meant(tmp_path: Path) -> None:
    folder = tmp_path / "my blobs 100%"
    open_blobs(folder.as_uri()).put("t", b"x")
    assert list(tmp_path.iterdir()) == [folder]
