from __future__ import annotations

from pathlib import Path

import pytest

from forebay.errors import BadInput
from forebay.model.task import NewTask
from forebay.stores.address import open_ledger
from forebay.stores.memory.ledger import MemoryLedger


def test_memory_is_a_ledger_of_this_process() -> None:
    assert isinstance(open_ledger("memory://"), MemoryLedger)


@pytest.mark.parametrize(
    ("address", "file"),
    [("sqlite:///tasks.db", "tasks.db"), ("sqlite:///deep/er.db", "deep/er.db"), ("sqlite:///a%20b.db", "a b.db")],
)
def test_three_slashes_name_a_file_from_here(
    address: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger(address)
    assert list(tmp_path.iterdir()) == []  # nothing before first use
    ledger.submit([NewTask(kind="work")])
    ledger.close()
    assert (tmp_path / file).exists()


def test_four_slashes_name_a_file_from_the_root(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/tasks.db")
    ledger.submit([NewTask(kind="work")])
    ledger.close()
    assert (tmp_path / "tasks.db").exists()


@pytest.mark.parametrize("address", ["postgresql://h/db", "postgres://h/db", "s3://b/p", "gs://b", "az://c"])
def test_stores_that_are_not_there_yet_are_refused_as_such(address: str) -> None:
    with pytest.raises(BadInput, match="not available in this version") as caught:
        open_ledger(address)
    assert "sqlite:///" in caught.value.remedy


@pytest.mark.parametrize(
    "address",
    [
        "",
        "forebay.db",
        "/var/lib/forebay.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x.db",
        "sqlite:///x.db?mode=ro",
        "sqlite:///x.db#a",
        "sqlite:///a%00b",
        "memory://name",
        "memory:///x",
        "dynamodb://table",
        "redis://localhost/0",
        "http://[",
        None,
        7,
    ],
)
def test_what_names_no_ledger_is_refused_with_what_would(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_ledger(address)
    assert "sqlite:///" in caught.value.remedy


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "mysql"])
def test_a_password_in_an_address_is_not_shown(scheme: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_ledger(f"{scheme}://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)
