"""What a very long document costs: memory of the process that runs it, and time for each page beside shorter ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.documents import papers
from benchmarks.documents.commands import Ran, Wrong, forebay
from benchmarks.documents.telling import alternating
from benchmarks.fleet.telling import at_most, machine_readable

_MEMORY_MIB = 300.0
_FLAT = 1.2


def length(folder: Path, rounds: int, pages: int) -> None:
    """The longest once; a document of one page tells what the start costs, which is taken away."""
    sizes = (1, pages // 100, pages // 10, pages)
    print(f"\nlength: up to {pages:,} pages of {papers.WORDS} words of text; {rounds} rounds, the longest once")
    print("  forebay run --format md,json; memory of that process alone, at its highest", flush=True)
    runs = {size: partial(forebay, papers.texts(folder, size).path, folder, "md", "json") for size in sizes}
    ran: dict[int, list[Ran]] = {size: [] for size in sizes}
    for name, each in alternating({str(size): runs[size] for size in sizes[:-1]}, rounds):
        ran[int(name)].append(each)
    ran[pages] = [each for _, each in alternating({str(pages): runs[pages]}, 1)]
    start = median(each.seconds for each in ran[1])
    print(f"{'pages':>28} {'seconds':>8} {'ms/page':>8} {'without start':>14} {'MiB':>6}")
    rows = []
    for size in sizes:
        seconds = median(each.seconds for each in ran[size])
        peak = max(each.peak_mib for each in ran[size])
        steady = 1000 * (seconds - start) / max(1, size - 1)
        rows.append(
            {
                "pages": size,
                "seconds": seconds,
                "ms_page": 1000 * seconds / size,
                "without_start": steady,
                "peak_mib": peak,
            }
        )
        shown = f"{steady:>14.2f}" if size > 1 else f"{'':>14}"
        print(f"{f'{size:,}':>28} {seconds:>8.2f} {1000 * seconds / size:>8.2f} {shown} {peak:>6.0f}")
    growth = grown(rows[-2]["without_start"], rows[-1]["without_start"])
    verdicts = [
        at_most(_MEMORY_MIB, rows[-1]["peak_mib"], "MiB of the longest "),
        at_most(_FLAT, growth, "ms a page of the longest /of a tenth "),
    ]
    print(f"{verdicts[0]} ({rows[-1]['peak_mib']:.0f}); {verdicts[1]} ({growth:.2f}x)")
    machine_readable("length", rows, verdicts)


def grown(shorter: float, longest: float) -> float:
    """How many times as long a page takes; Wrong where the start, which is taken away, is all that was measured."""
    if shorter <= 0 or longest <= 0:
        raise Wrong(
            f"pages take {shorter:.2f} and {longest:.2f} ms without the start: too short, or too busy a machine"
        )
    return longest / shorter
