from collections.abc import Iterator
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
        "s3://@bucket/a",
        "http://[",
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


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIA123:hunter2@bucket/prefix",
        "s3://AKIA123:hunter2@bucket:port/prefix",
        "s3://AKIA123:hun/ter2@bucket",
        "s3://hunter2@bucket",
        "s3://bucket:hunter2/p",
        "s3://bucket/p?aws_secret_access_key=hunter2",
        "s3://bucket/p#hunter2",
        "s3://bucket/AKIA123:hunter2@p",
        "s3:/AKIA123:hunter2@bucket",
        "s3:AKIA123:hunter2@bucket",
        "s3//AKIA123:hunter2@bucket",
        "AKIA123:hunter2@bucket",
        "hunter2://AKIA123@bucket",
        "s3://[AKIA123:hunter2@bucket",
        "s3://AKIA123:hunter2\u2100@bucket",
        "s3://AKIA123:hunter2@bucket\n",
        " s3://AKIA123:hunter2@bucket",
        "file://AKIA123:hunter2@host/folder",
        "file:hunter2",
        "http://AKIA123:hunter2@host/bucket",
        "memory://hunter2",
        b"s3://AKIA123:hunter2@bucket",
        ["s3://AKIA123:hunter2@bucket"],
    ],
)
def test_keys_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(BadName) as caught:
        open_blobs(address)
    # With the errors it stands on, which some loggers print too.
    said = "".join(f"{error!r} {error}" for error in causes(caught.value)).lower()
    assert not [part for part in ("hunter2", "akia123", "hun", "ter2") if part in said]


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_a_refusal_tells_the_scheme_and_where_keys_belong() -> None:
    with pytest.raises(BadName, match=r"\(s3:\) has more than a scheme and a place.*environment"):
        open_blobs("s3://bucket/p?aws_secret_access_key=hunter2")


@pytest.mark.parametrize("address", ["S3://bucket/prefix", "s3://bucket/prefix?", "s3://bucket/prefix#"])
def test_the_address_of_a_store_is_the_plain_one(address: str) -> None:
    assert open_blobs(address).address == "s3://bucket/prefix"


def test_opening_a_folder_makes_nothing(tmp_path: Path) -> None:
    open_blobs((tmp_path / "new").as_uri())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_space_and_a_percent_sign_is_the_one_that_was_meant(tmp_path: Path) -> None:
    folder = tmp_path / "my blobs 100%"
    open_blobs(folder.as_uri()).put("t", b"x")
    assert list(tmp_path.iterdir()) == [folder]
