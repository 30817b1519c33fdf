"""Verbs that do what documents make parsers do."""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import signal
import stat
import time
from importlib import import_module
from typing import Any, NoReturn

from forebay.engine.signals import Permanent
from tests.processors.attempts import attempt

Arguments = dict[str, Any]
WARMED: list[str] = []


def warm() -> None:
    WARMED.append("once")


def echo(arguments: Arguments, files: list[int]) -> object:
    return arguments


def about(arguments: Arguments, files: list[int]) -> object:
    return {"pid": os.getpid(), "warmed": WARMED, "environment": dict(os.environ), "open": _open_files()}


def _open_files() -> list[int]:
    found = []
    for number in range(1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found


def upper(arguments: Arguments, files: list[int]) -> object:
    return os.write(files[1], os.read(files[0], 1 << 20).upper())


def refuse(arguments: Arguments, files: list[int]) -> NoReturn:
    error = Permanent(arguments["text"])
    error.error_class = arguments["as"]
    raise error


def fail(arguments: Arguments, files: list[int]) -> NoReturn:
    raise RuntimeError("odd \x1b[31m thing")


def sleep(arguments: Arguments, files: list[int]) -> object:
    for number in files:
        os.write(number, b"x")
    time.sleep(arguments["seconds"])
    return os.getpid()


def meet(arguments: Arguments, files: list[int]) -> object:
    """Answers once another one has come to the meeting: it takes two at the same time."""
    mine, theirs = files
    os.write(mine, b"x")
    while os.fstat(theirs).st_size == 0:
        time.sleep(0.01)
    return os.getpid()


def burn(arguments: Arguments, files: list[int]) -> object:
    until = time.process_time() + arguments["seconds"]
    while time.process_time() < until:
        pass
    return {"pid": os.getpid(), "used_s": time.process_time()}


def allocate(arguments: Arguments, files: list[int]) -> object:
    return len(bytearray(arguments["bytes"]))


def abort_when_full(arguments: Arguments, files: list[int]) -> NoReturn:
    """As C code does it that cannot go on."""
    kept = []
    try:
        while True:
            kept.append(b"x" * (16 << 20))
    except MemoryError:
        os.abort()


def die(arguments: Arguments, files: list[int]) -> object:
    os.kill(os.getpid(), signal.Signals[arguments["signal"]])
    time.sleep(30)
    return None


def crash(arguments: Arguments, files: list[int]) -> object:
    return ctypes.string_at(1)


def old_call(arguments: Arguments, files: list[int]) -> object:
    """Asks the kernel as a 32-bit program does, with numbers of its own: 20 is getpid there, 59 nothing here."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())


def leave(arguments: Arguments, files: list[int]) -> NoReturn:
    os._exit(0)


def write(arguments: Arguments, files: list[int]) -> object:
    return sum(os.write(files[0], bytes(1 << 20)) for _ in range(arguments["megabytes"]))


def large(arguments: Arguments, files: list[int]) -> object:
    return "x" * arguments["bytes"]


def say(arguments: Arguments, files: list[int]) -> object:
    line = next(number for number in _open_files() if stat.S_ISSOCK(os.fstat(number).st_mode))
    os.write(line, bytes.fromhex(arguments["hex"]))
    time.sleep(30)
    return None


def hang_up(arguments: Arguments, files: list[int]) -> object:
    os.closerange(3, 1024)
    time.sleep(30)
    return None


def forget(arguments: Arguments, files: list[int]) -> object:
    """Closes the lifeline and everything else but the connection, then waits."""
    for number in _open_files():
        if number not in files and not stat.S_ISSOCK(os.fstat(number).st_mode):
            os.close(number)
    return sleep(arguments, files)


def read_tools(arguments: Arguments, files: list[int]) -> object:
    """Imports only now what reads documents, and opens one with it."""
    pikepdf, pypdfium2, eld = (import_module(name) for name in ("pikepdf", "pypdfium2", "eld"))
    image = import_module("PIL.Image")
    with os.fdopen(os.dup(files[0]), "rb") as file, pikepdf.open(file) as pdf:
        count = len(pdf.pages)
        pdf.save(io.BytesIO())
    with os.fdopen(os.dup(files[0]), "rb") as file:
        document = pypdfium2.PdfDocument(file)
        size = document[0].render(scale=1).to_pil().size
        document.close()
    image.new("L", (8, 8)).save(io.BytesIO(), "PNG")
    language = eld.LanguageDetector().detect("Das ist ein ganz gewöhnlicher deutscher Satz.").language
    return {"pages": count, "size": list(size), "language": language}


VERBS = {
    each.__name__: each
    for each in (
        about, abort_when_full, allocate, attempt, burn, crash, die, echo, fail, forget, hang_up, large, leave, meet,
        old_call, read_tools, refuse, say, sleep, upper, write,
    )
}  # fmt: skip
