from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from forebay.errors import BadInput, NotFound, StoreUnreachable
from forebay.limits import FollowedFile, Limit, Limiter
from forebay.observe import subscribe
from forebay.stores.memory.limits import MemoryLimits

ADOBE = "[limits.adobe]\nin_flight = 5\n"


@pytest.fixture
def limiter() -> Iterator[Limiter]:
    with Limiter("memory://") as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forebay.toml"


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    heard: list[str] = []

    def listen(name: str, fields: Mapping[str, object]) -> None:
        if name == "limits_file_bad":
            heard.append(str(fields["problem"]))

    end = subscribe(listen)
    yield heard
    end()


def write(file: Path, text: str) -> None:
    """As another moment would have written it: the clock of a file system may be coarse."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(before + 1_000_000, before + 1_000_000))


def followed(limiter: Limiter, file: Path, **environ: str) -> FollowedFile:
    made = FollowedFile(limiter, file, environ=environ)
    made.look()
    return made


def bound(limiter: Limiter, name: str = "adobe") -> tuple[int | None, str]:
    usage = limiter.usage(name)
    return usage.limit.in_flight, usage.sources["in_flight"]


def test_what_the_file_says_is_a_layer_above_the_code(limiter: Limiter, file: Path) -> None:
    limiter.define(Limit("adobe", in_flight=9))
    write(file, ADOBE + 'windows = [[190, 60], [40000, 60, "tokens"]]\n')
    followed(limiter, file)
    usage = limiter.usage("adobe")
    assert bound(limiter) == (5, "file")
    assert [str(each) for each in usage.limit.windows] == ["190 calls per 60 s", "40000 tokens per 60 s"]
    limiter.configure("adobe", in_flight=3)
    assert bound(limiter) == (3, "operator")


def test_a_change_is_followed_and_what_is_removed_is_cleared(limiter: Limiter, file: Path) -> None:
    limiter.define(Limit("adobe", in_flight=9))
    write(file, ADOBE)
    follower = followed(limiter, file)
    write(file, ADOBE.replace("5", "6"))
    follower.look()
    assert bound(limiter) == (6, "file")
    write(file, "")
    follower.look()
    assert bound(limiter) == (9, "code")


def test_a_file_that_vanishes_says_nothing_any_more(limiter: Limiter, file: Path) -> None:
    limiter.define(Limit("adobe", in_flight=9))
    write(file, ADOBE)
    follower = followed(limiter, file)
    file.unlink()
    follower.look()
    assert bound(limiter) == (9, "code")


@pytest.mark.parametrize(
    "text", ["[limits.adobe", "[limits.adobe]\nin_flight = -1\n", "[limits.adobe]\nrpm = 5\n", "limits = 5\n", "\x00"]
)
def test_bad_content_is_said_once_and_the_last_good_one_stays(
    limiter: Limiter, file: Path, complaints: list[str], text: str
) -> None:
    write(file, ADOBE)
    follower = followed(limiter, file)
    write(file, text)
    follower.look()
    follower.look()
    assert len(complaints) == 1
    assert bound(limiter) == (5, "file")
    write(file, ADOBE.replace("5", "7"))
    follower.look()
    assert bound(limiter) == (7, "file")


def test_a_part_of_a_limit_waits_until_the_code_defines_the_rest(
    limiter: Limiter, file: Path, complaints: list[str]
) -> None:
    write(file, "[limits.adobe]\ncall_timeout_s = 90\n[limits.other]\nin_flight = 2\n")
    follower = followed(limiter, file)
    assert len(complaints) == 1
    assert bound(limiter, "other") == (2, "file")
    limiter.define(Limit("adobe", in_flight=9))
    follower.look()
    assert limiter.usage("adobe").limit.call_timeout_s == 90


def test_variables_win_over_the_file(limiter: Limiter, file: Path) -> None:
    write(file, ADOBE + "call_timeout_s = 90\n")
    followed(limiter, file, FOREBAY_LIMIT_ADOBE_IN_FLIGHT="8")
    assert bound(limiter) == (8, "file")
    assert limiter.usage("adobe").limit.call_timeout_s == 90


def test_the_address_of_the_store_is_no_limit(limiter: Limiter, file: Path, complaints: list[str]) -> None:
    write(file, 'lease_s = 20\n[limits]\naddress = "redis://a/0"\n')
    followed(limiter, file)
    write(file, 'limits = "redis://a/0"\n')
    followed(limiter, file)
    assert (limiter.names(), complaints) == ([], [])


def test_what_an_earlier_process_wrote_from_the_same_file_is_cleared_too(file: Path) -> None:
    store = MemoryLimits()
    before, after = Limiter(store), Limiter(store)
    after.define(Limit("adobe", in_flight=9))
    write(file, ADOBE)
    followed(before, file)
    write(file, "")
    followed(after, file)
    assert bound(after) == (9, "code")


def test_what_another_file_says_is_left_alone(file: Path, tmp_path: Path) -> None:
    store = MemoryLimits()
    write(file, ADOBE)
    followed(Limiter(store), file)
    limiter = Limiter(store)
    followed(limiter, tmp_path / "other.toml")
    assert bound(limiter) == (5, "file")


def test_a_store_that_forgot_is_told_again(file: Path) -> None:
    store = MemoryLimits()
    with Limiter(store) as limiter:
        write(file, ADOBE)
        followed(limiter, file)
        with limiter.slot("adobe"):
            pass
        store._records.clear()
        assert limiter.try_slot("adobe") is None  # held back, since it forgot
        assert bound(limiter) == (5, "file")


def test_a_store_that_does_not_answer_is_told_later(
    file: Path, complaints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryLimits()

    def down() -> list[str]:
        raise StoreUnreachable("It is gone.")

    with Limiter(store) as limiter:
        monkeypatch.setattr(store, "names", down)
        follower = FollowedFile(limiter, file, environ={"FOREBAY_LIMIT_ADOBE_IN_FLIGHT": "8"})
        follower.look()
        assert len(complaints) == 1
        monkeypatch.undo()
        follower.look()
        assert bound(limiter) == (8, "file")


def test_it_looks_by_itself_until_it_is_closed(limiter: Limiter, file: Path) -> None:
    write(file, ADOBE)
    with FollowedFile(limiter, file, environ={}, every_s=0.01):
        assert bound(limiter) == (5, "file")
        write(file, ADOBE.replace("5", "6"))
        ends_at = time.monotonic() + 10
        while bound(limiter) != (6, "file"):
            assert time.monotonic() < ends_at
            time.sleep(0.01)
    assert "forebay-limits-file" not in {thread.name for thread in threading.enumerate()}


def test_without_a_file_it_is_that_of_the_settings(
    limiter: Limiter, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path)}
    FollowedFile(limiter, environ=environ).start()  # none is there: no thread either
    with pytest.raises(NotFound):
        limiter.usage("adobe")
    write(file, ADOBE)
    FollowedFile(limiter, environ=environ).look()
    assert bound(limiter) == (5, "file")
    with pytest.raises(BadInput, match="FOREBAY_CONFIG"):
        FollowedFile(limiter, environ={**environ, "FOREBAY_CONFIG": "missing.toml"})


def test_limits_load_neither_settings_nor_pydantic() -> None:
    code = (
        "import sys, forebay.limits; from forebay.limits import FollowedFile, Limiter, Limit, acquire_slot\n"
        "assert not {'pydantic', 'forebay.settings'} & set(sys.modules)\n"
        "FollowedFile(Limiter('memory://')).start()\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
