"""`python -m forebay.child …`: started by a worker, useless to people."""

from __future__ import annotations

import sys


def main() -> int:
    """Each imports what it needs: a program under limits shall start as if it were started alone."""
    match sys.argv[1:]:
        case ["--limit", *arguments]:
            from forebay.child.limit import main as limit  # noqa: PLC0415

            return limit(arguments)
        case ["--parse", verbs]:
            from forebay.child.parser import main as parse  # noqa: PLC0415

            return parse(verbs)
        case arguments:
            from forebay.child.begin import main as begin  # noqa: PLC0415

            return begin(arguments)


if __name__ == "__main__":
    sys.exit(main())
