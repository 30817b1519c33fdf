"""Breaks src/forebay/rules on purpose, one small change at a time, and reports which changes no test notices.

Each process works on its own copy of the tree. A mutant is killed if a test fails or does not end in time.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULES = Path("src/forebay/rules")
TESTS = Path("tests/unit/rules")
# The memory stores run the rules of both contracts, and nothing else.
CONTRACTS = ("tests/stores/test_memory_limits.py", "tests/stores/test_memory_ledger.py")
COPIED = ("src", "tests", "pyproject.toml")
# Imported before each fork, so that a mutant pays for its own modules only. Nothing of Forebay may be among them.
PRELOADED = (
    "apsw", "boto3", "hypothesis.stateful", "hypothesis.strategies", "psycopg", "pydantic", "redis", "structlog",
)  # fmt: skip
BROKEN, SOUND, SLOW = "killed", "survived", "killed (too slow)"

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
# Types decide nothing, nor does how a class is made.
LEFT_ALONE = {"annotation", "returns", "type_params", "decorator_list"}


class Mutant(NamedTuple):
    path: Path
    line: int
    change: str
    source: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield each changed copy of this node."""
    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(first)](), *node.ops[1:]])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(operator)]())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.If() | ast.While():
            yield _with(node, test=ast.Constant(False))  # noqa: FBT003 - the value of the node
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case _:
            pass


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def mutants(path: Path) -> Iterator[Mutant]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for parent, field, index, node in _places(tree):
        for changed in changes(node):
            ast.copy_location(changed, node)
            ast.fix_missing_locations(changed)
            _put(parent, field, index, changed)
            yield Mutant(path, node.lineno, f"{_first_line(node)}  ->  {_first_line(changed)}", ast.unparse(tree))
            _put(parent, field, index, node)


def _places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    for field, value in ast.iter_fields(parent):
        if field in LEFT_ALONE:
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or _is_type(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield parent, field, index, node
            yield from _places(node)


def _is_type(node: ast.AST) -> bool:
    """Return whether this is `X | None` in an alias: types decide nothing."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and "None" in ast.unparse(node)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def tests_of(path: Path) -> list[str]:
    """Return the tests of the rules, those that name the module first."""
    files = sorted((ROOT / TESTS).glob("test_*.py"), key=lambda file: (path.stem not in file.read_text(), file.name))
    own = ROOT / TESTS / f"test_{path.stem}.py"
    ordered = [own, *(file for file in files if file != own)] if own in files else files
    return [*(str(file.relative_to(ROOT)) for file in ordered), *CONTRACTS]


class Copy:
    """A copy of the tree that this process may break."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self.folder / name)
        self._written = 0
        for name in PRELOADED:
            importlib.import_module(name)

    def judge(self, mutant: Mutant, timeout_s: float) -> str:
        original = (ROOT / mutant.path).read_text(encoding="utf-8")
        self._write(mutant.path, mutant.source)
        try:
            own, *others = tests_of(mutant.path)
            # Collecting all tests takes longer than to run the few that kill most mutants.
            verdict = self.test([own], timeout_s)
            return self.test(others, timeout_s) if verdict == SOUND else verdict
        finally:
            self._write(mutant.path, original)

    def _write(self, path: Path, source: str) -> None:
        """Write the file with a time of its own: bytecode of another mutant must not be taken for its bytecode."""
        self._written += 1
        (self.folder / path).write_text(source, encoding="utf-8")
        os.utime(self.folder / path, (self._written, self._written))

    def test(self, tests: list[str], timeout_s: float) -> str:
        child = multiprocessing.get_context("fork").Process(target=self._run, args=(tests,))
        child.start()
        child.join(timeout_s)
        if child.exitcode is None:
            os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
            return SLOW
        return SOUND if child.exitcode == pytest.ExitCode.OK else BROKEN

    def _run(self, tests: list[str]) -> None:
        os.setsid()
        with (self.folder / "log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.chdir(self.folder)
        sys.path[:0] = [str(self.folder / "src"), str(self.folder)]
        os.environ["PYTHONPATH"] = str(self.folder / "src")
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        os._exit(pytest.main([*options, *tests]))


_copy: Copy | None = None


def _prepare(folder: Path) -> None:
    global _copy  # noqa: PLW0603 - one copy of the tree for each process
    _copy = Copy(folder)


def _judge(mutant: Mutant, timeout_s: float) -> tuple[Mutant, str]:
    assert _copy is not None
    return mutant, _copy.judge(mutant, timeout_s)


def _judge_unchanged() -> tuple[str, str]:
    assert _copy is not None
    return _copy.test(tests_of(RULES / "x.py"), 600), (_copy.folder / "log").read_text()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules of src/forebay/rules, such as backoff (default: all)")
    parser.add_argument("--sample", type=int, help="try this many mutants, chosen at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="which sample to choose (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="(default: one for each core)")
    parser.add_argument("--timeout-s", type=float, help="(default: five times as long as the tests take unchanged)")
    parser.add_argument("--at-least", type=float, default=90.0, help="percentage that must be killed (default: 90)")
    return parser.parse_args()


def main() -> int:
    asked = options()
    paths = [RULES / f"{name}.py" for name in asked.modules] or sorted(
        path.relative_to(ROOT) for path in (ROOT / RULES).glob("*.py")
    )
    found = [mutant for path in paths for mutant in mutants(path)]
    chosen = random.Random(asked.seed).sample(found, min(asked.sample or len(found), len(found)))
    verdicts: Counter[str] = Counter()
    by_module: dict[str, Counter[str]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="forebay-mutants-") as folder,
        ProcessPoolExecutor(asked.processes, initializer=_prepare, initargs=(Path(folder),)) as pool,
    ):
        began_at = time.monotonic()
        verdict, log = pool.submit(_judge_unchanged).result()
        if verdict != SOUND:
            print(f"The tests fail without any mutant:\n{log}", file=sys.stderr)
            return 2
        timeout_s = asked.timeout_s or max(20.0, 5 * (time.monotonic() - began_at))
        print(f"{len(chosen)} of {len(found)} mutants, each within {timeout_s:.0f} s", flush=True)
        for done in as_completed(pool.submit(_judge, mutant, timeout_s) for mutant in chosen):
            mutant, verdict = done.result()
            verdicts[verdict] += 1
            by_module.setdefault(mutant.path.stem, Counter())[verdict] += 1
            if verdict != BROKEN:
                print(f"{verdict}: {mutant.path}:{mutant.line}: {mutant.change}", flush=True)
    for name, counts in sorted(by_module.items()):
        print(f"{name}: {counts.total() - counts[SOUND]} of {counts.total()} killed")
    killed = 100 * (verdicts.total() - verdicts[SOUND]) / max(1, verdicts.total())
    print(f"{killed:.1f} % killed: {verdicts.total() - verdicts[SOUND]} of {verdicts.total()} ({dict(verdicts)})")
    return int(killed < asked.at_least)


if __name__ == "__main__":
    sys.exit(main())
