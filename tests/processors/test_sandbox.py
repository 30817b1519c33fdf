"""A parser that a document has taken over: each thing that it tries fails, and succeeds without the sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.processors.parser_child import Bounds
from forebay.processors.parsers import Parsers
from tests.processors.attempts import ATTEMPTS
from tests.processors.ground import alive, failing, until, with_parsers

ON_FILES = ("read", "list", "write", "delete", "rename", "chmod")
CONTROL = """
import json, sys
from tests.processors.attempts import attempt
print(json.dumps([attempt({"what": what, "with": value}, []) for what, value in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, object]]]:
    folder = tmp_path_factory.mktemp("user")
    secret = folder / "secret"
    files = {what: folder / what for what in ON_FILES}
    for path in (secret, *files.values()):
        path.write_text("hush")
    with socket.create_server(("127.0.0.1", 0)) as server:
        values = {"connect": server.getsockname()[1], "signal": os.getpid(), "own": os.getpid(), "list": str(folder)}
        values |= {what: str(path) for what, path in files.items() if what != "list"}
        more = [("read", place) for place in ("/proc/self/environ", f"/proc/{os.getpid()}/environ", "/etc/passwd")]
        last = [("ptrace", None)]  # it changes how signals reach the process that tries
        yield [*((what, values.get(what)) for what in ATTEMPTS if what != "ptrace"), *more, *last]


def test_nothing_that_leads_out_works(tries: list[tuple[str, object]]) -> None:
    async def scenario(parsers: Parsers) -> list[object]:
        return [await parsers.call("attempt", {"what": what, "with": value}) for what, value in _json(tries)]

    answers = with_parsers(scenario)
    did = [each for each, answer in zip(tries, answers, strict=True) if answer == "did it"]
    assert did == []


def test_without_the_sandbox_all_of_it_works(tries: list[tuple[str, object]]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", CONTROL],
        input=json.dumps(tries),
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    failed = [each for each, answer in zip(tries, json.loads(found.stdout), strict=True) if answer != "did it"]
    assert failed == []


def _json(tries: list[tuple[str, object]]) -> list[tuple[str, str | int | None]]:
    return [(what, value if isinstance(value, str | int) else None) for what, value in tries]


def test_a_folder_that_is_on_the_path_but_holds_no_packages_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("hush")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])

    async def scenario(parsers: Parsers) -> None:
        assert await parsers.call("attempt", {"what": "read", "with": str(tmp_path / "secret")}) == "PermissionError"

    with_parsers(scenario)


def test_no_credentials_and_no_descriptors_reach_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("FOREBAY_LEDGER", "postgresql://ann:hush@db/forebay")
    ours, theirs = os.pipe()
    os.set_inheritable(ours, True)  # noqa: FBT003 - its own signature

    async def scenario(parsers: Parsers) -> None:
        about = await parsers.call("about", {})
        assert isinstance(about, dict)
        assert "hush" not in json.dumps(about)
        kept = {"LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "MALLOC_ARENA_MAX"}
        assert isinstance(about["environment"], dict)
        assert set(about["environment"]) <= kept
        assert isinstance(about["open"], list)
        assert len(about["open"]) == 5  # three that lead nowhere, the line and the lifeline

    try:
        with_parsers(scenario)
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_reads_documents_can_still_be_imported_and_works() -> None:
    import pikepdf  # noqa: PLC0415 - takes a while

    async def scenario(parsers: Parsers) -> None:
        with tempfile.TemporaryFile() as file:
            with pikepdf.new() as pdf:
                pdf.add_blank_page(page_size=(200, 100))
                pdf.save(file)
            file.flush()
            found = await parsers.call("read_tools", {}, files=[file.fileno()])
        assert found == {"pages": 1, "size": [200, 100], "language": "de"}

    with_parsers(scenario, bounds=Bounds())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only this machine has a second set of calls")
def test_calls_of_another_machine_end_the_child() -> None:
    async def scenario(parsers: Parsers) -> None:
        assert await failing(parsers.call("old_call", {})) == "parser_crashed"

    with_parsers(scenario)


PARENT = """
import asyncio, sys
from forebay.processors.parsers import Parsers

async def main():
    parsers = Parsers(2, verbs="tests.processors.verbs:VERBS")
    verb, *paths = sys.argv[1:]
    opened = [open(each, "r+b", buffering=0) for each in paths]
    *files, sign = [each.fileno() for each in opened]
    pids = await asyncio.gather(parsers.call("meet", {}, files=files), parsers.call("meet", {}, files=files[::-1]))
    print(*pids, flush=True)
    await parsers.call(verb, {"seconds": 60}, files=[sign], timeout_s=60)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["sleep", "forget"])
def test_children_end_with_a_parent_that_is_killed(verb: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "other", "sign")]
    for each in files:
        each.touch()
    command = [sys.executable, "-c", PARENT, verb, *map(str, files)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as parent:
        try:
            assert parent.stdout is not None
            pids = [int(word) for word in parent.stdout.readline().split()]
            assert len(pids) == 2
            until(lambda: files[-1].stat().st_size > 0)
            assert all(map(alive, pids))
        finally:
            parent.send_signal(signal.SIGKILL)
        parent.wait(60)
    until(lambda: not any(map(alive, pids)))


def test_the_level_says_what_is_in_force() -> None:
    async def scenario() -> str:
        parsers = Parsers(1, verbs="forebay.child.parser:NO_VERBS")
        level = await parsers.level()
        await parsers.aclose()
        assert level.missing == ()
        return str(level)

    assert asyncio.run(scenario()).startswith("seccomp+landlock (ABI ")
