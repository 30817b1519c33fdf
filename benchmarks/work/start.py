"""`python -m benchmarks.work.start ours|theirs …`: the process that works, started by a benchmark."""

from __future__ import annotations

import sys


def main() -> None:
    # Each engine imports only itself: what the other one costs shall not be counted.
    match sys.argv[1:]:
        case ["ours", concurrency, processes]:
            from benchmarks.work import ours  # noqa: PLC0415

            ours.work(int(concurrency), int(processes))
        case ["theirs", workers, worker_type, delay_s]:
            from benchmarks.work import theirs  # noqa: PLC0415

            theirs.work(int(workers), worker_type, float(delay_s))
        case _:
            sys.exit("benchmarks.work.start: started by a benchmark, not by hand.")


if __name__ == "__main__":
    main()
