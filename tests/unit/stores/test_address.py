from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forebay.errors import BadInput
from forebay.model.task import NewTask
from forebay.stores.address import open_ledger
from forebay.stores.limit_address import open_limits
from forebay.stores.memory.ledger import MemoryLedger
from forebay.stores.postgres.ledger import PostgresLedger


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


@pytest.mark.parametrize(
    "address", ["postgresql://user@host/db", "postgres:///db", "postgresql://h/db?sslmode=require"]
)
def test_a_postgres_address_is_opened_without_asking_the_server(address: str) -> None:
    assert isinstance(open_ledger(address), PostgresLedger)


@pytest.mark.parametrize("address", ["postgresql://u:secret@h/db?no_such_option=1", "postgresql://u:secret@[h/db"])
def test_a_bad_postgres_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_ledger(address)
    assert "secret" not in str(caught.value)


def test_without_psycopg_the_install_line_is_told() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from forebay.errors import MissingExtra\n"
        "from forebay.stores.address import open_ledger\n"
        "try:\n    open_ledger('postgresql://h/db')\n"
        "except MissingExtra as error:\n    print(error.remedy)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "Run: pip install 'forebay[postgres]'"


@pytest.mark.parametrize("address", ["s3://b/p", "gs://b", "az://c"])
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


@pytest.mark.parametrize("scheme", ["redis", "mysql"])
def test_a_password_in_an_address_is_not_shown(scheme: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_ledger(f"{scheme}://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", [".", "a..b", "a" * 64])
def test_a_host_that_can_be_no_name_is_refused_before_it_is_looked_up(host: str) -> None:
    with pytest.raises(BadInput, match="Redis"):
        open_limits(f"redis://:hunter2@{host}/0", "dev")
