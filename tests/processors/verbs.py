"""Verbs that try what a document might make a parser try."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebay.engine.signals import Permanent

WARMED: list[str] = []


def warm() -> None:
    WARMED.append("yes")


def echo(arguments: dict[str, Any], files: list[int]) -> Any:
    return arguments


def who(arguments: dict[str, Any], files: list[int]) -> Any:
    return {"pid": os.getpid(), "warmed": WARMED, "environment": dict(os.environ), "open": _open_files()}


def _open_files() -> list[int]:
    found = []
    for number in range(64):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found


def copy(arguments: dict[str, Any], files: list[int]) -> Any:
    data = os.read(files[0], 1 << 20)
    return os.write(files[1], data.upper())


def refuse(arguments: dict[str, Any], files: list[int]) -> Any:
    raise Permanent("page 3 has a lock", error_class=arguments["as"])


def fail(arguments: dict[str, Any], files: list[int]) -> Any:
    raise RuntimeError("odd \x1b[31m thing")


def sleep(arguments: dict[str, Any], files: list[int]) -> Any:
    if files:
        os.write(files[0], b"x")
    time.sleep(arguments["seconds"])
    return os.getpid()


def burn(arguments: dict[str, Any], files: list[int]) -> Any:
    until = time.process_time() + arguments["seconds"]
    while time.process_time() < until:
        pass
    return {"pid": os.getpid(), "used_s": time.process_time()}


def allocate(arguments: dict[str, Any], files: list[int]) -> Any:
    return len(bytearray(arguments["bytes"]))


def abort_when_full(arguments: dict[str, Any], files: list[int]) -> Any:
    kept = []
    try:
        while True:
            kept.append(bytes([1]) * (16 << 20))
    except MemoryError:
        os.abort()


def die(arguments: dict[str, Any], files: list[int]) -> Any:
    os.kill(os.getpid(), getattr(signal, arguments["signal"]))
    time.sleep(30)


def crash(arguments: dict[str, Any], files: list[int]) -> Any:
    ctypes.string_at(1)


def leave(arguments: dict[str, Any], files: list[int]) -> Any:
    os._exit(0)


def write(arguments: dict[str, Any], files: list[int]) -> Any:
    block = bytes(1 << 20)
    return sum(os.write(files[0], block) for _ in range(arguments["megabytes"]))


def large(arguments: dict[str, Any], files: list[int]) -> Any:
    return "x" * arguments["bytes"]


def rubbish(arguments: dict[str, Any], files: list[int]) -> Any:
    line = next(number for number in _open_files() if _is_socket(number))
    os.write(line, bytes.fromhex(arguments["hex"]))
    time.sleep(30)


def hang_up(arguments: dict[str, Any], files: list[int]) -> Any:
    for number in _open_files()[3:]:
        os.close(number)
    time.sleep(30)


def _is_socket(number: int) -> bool:
    try:
        return Path(f"/proc/self/fd/{number}").readlink().name.startswith("socket")
    except OSError:
        import stat  # noqa: PLC0415

        return stat.S_ISSOCK(os.fstat(number).st_mode)


def attempt(arguments: dict[str, Any], files: list[int]) -> Any:
    """Try something; what came of it, as text."""
    try:
        return repr(_ATTEMPTS[arguments["what"]](arguments.get("with")))
    except OSError as error:
        return type(error).__name__
    except RuntimeError as error:
        return type(error).__name__


def _raise_limit(what: int) -> None:
    resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _call(name: str, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(getattr(libc, name)(*arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found


def _thread(_: Any) -> None:
    import threading  # noqa: PLC0415

    threading.Thread(target=print).start()


def _own(_: Any) -> None:
    import fcntl  # noqa: PLC0415

    fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())


_ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "socket": lambda _: socket.socket().close(),
    "unix": lambda _: socket.socket(socket.AF_UNIX).close(),
    "pair": lambda _: [end.close() for end in socket.socketpair()],
    "connect": lambda port: socket.create_connection(("127.0.0.1", port), timeout=2).close(),
    "exec": lambda _: os.execv(sys.executable, [sys.executable, "-c", "pass"]),
    "run": lambda _: subprocess.run([sys.executable, "-c", "pass"], check=True).returncode,
    "fork": lambda _: _call("fork"),
    "thread": _thread,
    "ptrace": lambda _: _call("ptrace", 0x4206, os.getppid(), 0, 0),
    "signal": lambda pid: os.kill(pid, 0),
    "own": _own,
    "read": lambda path: Path(path).read_text(),
    "list": lambda path: len(os.listdir(path)),  # noqa: PTH208 - as plain as can be
    "write": lambda path: Path(path).write_text("x"),
    "delete": lambda path: Path(path).unlink(),
    "chmod": lambda path: Path(path).chmod(0o777),
    "memory": lambda _: _raise_limit(resource.RLIMIT_AS),
    "prctl": lambda _: _call("prctl", 1, 0, 0, 0, 0),
    "memfd": lambda _: os.close(os.memfd_create("x")),
    "i386": lambda _: None,
}


def tools(arguments: dict[str, Any], files: list[int]) -> Any:
    """Import what reads documents only now, and open one."""
    import io  # noqa: PLC0415

    import eld  # noqa: PLC0415
    import pikepdf  # noqa: PLC0415
    import pypdfium2  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    with os.fdopen(os.dup(files[0]), "rb") as file, pikepdf.open(file) as pdf:
        pages = len(pdf.pages)
        saved = io.BytesIO()
        pdf.save(saved)
    with os.fdopen(os.dup(files[0]), "rb") as file:
        document = pypdfium2.PdfDocument(file)
        picture = document[0].render(scale=1).to_pil()
        document.close()
    shrunk = io.BytesIO()
    Image.new("L", (8, 8)).save(shrunk, "PNG")
    language = eld.LanguageDetector().detect("Das ist ein ganz gewöhnlicher deutscher Satz.").language
    return {"pages": pages, "size": list(picture.size), "saved": len(saved.getvalue()) > 100, "language": language}


VERBS = {
    each.__name__: each
    for each in (
        echo,
        who,
        copy,
        refuse,
        fail,
        sleep,
        burn,
        allocate,
        abort_when_full,
        die,
        crash,
        leave,
        write,
        large,
        rubbish,
        hang_up,
        attempt,
        tools,
    )
}
