"""Takes one step with the rows of a limit: reads what it needs, has the rules decide, and says what to write."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from forebay.model.limit_record import Answer, Ask, Grant, Record, Terms
from forebay.rules import admission
from forebay.rules import limit_state as state
from forebay.stores.sql import limit_changes
from forebay.stores.sql.limit_changes import Beat, Changes, GrantedRow
from forebay.stores.sql.limit_codec import (
    all_rows,
    counts_of,
    header_of,
    log_entries,
    packed_header_of,
    placing_terms,
    plain_record,
    quoted,
    rows_of,
    run_rows,
    session_row,
    sums_of,
    units_of_calls,
    whole_record,
)
from forebay.stores.sql.limit_older import read_older
from forebay.stores.sql.limit_parts import (
    Before,
    Forgot,
    Part,
    Parts,
    Wanted,
    beat_record,
    found_record,
    may_only_beat,
    part_record,
    wanted,
)
from forebay.stores.sql.limit_rows import (
    NO_ROWS,
    Counts,
    Header,
    HeaderChange,
    LoadedHeader,
    Rows,
    SeatRows,
    TailRow,
)

FEW = 24
"""Sessions, runs and calls of a limit that is small again."""
_EMPTY = Rows({}, {}, {})


class WholeReader(Protocol):
    """Reads all rows of a limit."""

    def whole(self) -> Rows: ...


class Reader(WholeReader, Protocol):
    """Reads rows of a limit in a transaction that sees them as its header counts them."""

    def seat(self, sid: str) -> SeatRows:
        """The session and its runs, without its calls."""

    def parts(self, loaded: LoadedHeader, want: Wanted) -> Parts: ...

    def before(self, tag: int) -> int:
        """Return how many runs that are not too large stand before a tag."""


class Decided(NamedTuple):
    """The answer, what to write, and what each session was given that hears of it."""

    answer: Answer
    changes: Changes | Beat
    told: list[tuple[str, list[Grant]]]


def exchange(header: Header, reader: Reader, ask: Ask, raw: int) -> Decided | None:
    """Decide on the part of the limit that the ask has to do with, or on all of it where that is not enough.

    Return None where nothing has to be written because the limit has no terms.
    """
    if not header.older and (decided := _bounded(header, reader, ask, raw)) is not None:
        return decided
    record, before = read_whole(header, reader, raw, seen=ask["seen_at"], elapsed=ask["elapsed_ms"])
    answer = admission.decide(record, ask, raw)
    if answer["status"] == "unknown":
        return None
    return Decided(answer, replace(header, before, record), _told(record, answer))


def _bounded(header: Header, reader: Reader, ask: Ask, raw: int) -> Decided | None:
    """Decide on as little as possible; return None where that is not enough."""
    loaded = header.load()
    if loaded.parts is not None:
        return _packed(header, loaded, ask, raw)
    if may_only_beat(ask) and (decided := _beat(header, loaded, reader, ask, raw)):
        return decided
    try:
        return _part(header, loaded, reader, ask, raw)
    except Forgot:
        return None


def _packed(header: Header, loaded: LoadedHeader, ask: Ask, raw: int) -> Decided | None:
    """Decide on a small limit; return None where it becomes large, or where its header alone has to know more."""
    record = plain_record(header, loaded)
    answer = admission.decide(record, ask, raw)
    if answer["status"] == "unknown" or record["terms_version"] != loaded.plain["terms_version"]:
        return None
    change = packed_header_of(record, _latest(record, loaded.latest_call_until), with_people=False)
    return None if change is None else Decided(answer, limit_changes.nothing(change), _told(record, answer))


def _latest(record: Record, known: int) -> int:
    """Return when the last call is over that was ever granted."""
    return max([known, *(call["call_until"] for seat in record["sessions"].values() for call in seat["calls"])])


def _told(record: Record, answer: Answer) -> list[tuple[str, list[Grant]]]:
    return [(sid, record["sessions"][sid]["unconfirmed"]) for sid in answer["woken_session_ids"]]


def _beat(header: Header, loaded: LoadedHeader, reader: Reader, ask: Ask, raw: int) -> Decided | None:
    """Return None where the ask turns out to be more than a heartbeat."""
    rows = reader.seat(ask["session_id"])
    if rows.session is None:
        return None
    record = beat_record(header, loaded, rows, rows.session)
    answer = admission.beat(record, ask, raw)
    if answer is None:
        return None
    seat = record["sessions"][ask["session_id"]]
    if run_rows(ask["session_id"], seat, placing_terms(record["eras"])) != rows.runs:
        return None  # a session that continues where another store left off: its places have to know
    after = session_row(ask["session_id"], seat, opened=rows.session.open_call_count)
    return Decided(answer, Beat(record["last_step_at"], after), [])


def _is_as_known(record: Record, header: Header, loaded: LoadedHeader) -> bool:
    """Whether nothing has happened that all sessions have to do with."""
    plain = loaded.plain
    return (record["clock_offset_ms"], record["generation"], record["terms_version"]) == (
        header.clock_offset_ms,
        plain["generation"],
        plain["terms_version"],
    )


def _part(header: Header, loaded: LoadedHeader, reader: Reader, ask: Ask, raw: int) -> Decided | None:
    """Return None where the step has to know all of the limit."""
    want = wanted(ask)
    parts = reader.parts(loaded, want)
    if parts.totals is not None and is_few(loaded.counts):
        return None  # all of it fits into its header again
    while True:
        part = part_record(header, loaded, parts, ask["session_id"])
        record = part.record
        answer = admission.decide(record, ask, raw)
        if answer["status"] == "unknown" or not _is_as_known(record, header, loaded):
            return None
        tag = _tag_to_count(part, answer, ask["session_id"])
        if tag is None or (parts.before is not None and parts.before.virtual_start == tag):
            break
        # The rules are asked again, knowing this: what they decide is the same. They have changed what was loaded.
        loaded = header.load()
        parts = parts._replace(before=Before(tag, reader.before(tag)))
    return Decided(answer, _part_changes(loaded, part, answer, want), _told(record, answer))


def is_few(counts: Counts) -> bool:
    return counts.sessions + counts.runs + counts.calls <= FEW


def _tag_to_count(part: Part, answer: Answer, sid: str) -> int | None:
    """Return the tag of the asker's first run if others may stand before it that were not read."""
    if not answer["waits"]:
        return None
    horizon = part.record["rest"]["horizon"]
    silent = sum(len(runs) for each, runs in part.places.items() if part.record["sessions"][each]["unconfirmed"])
    if not horizon and silent < state.HEADS:
        return None
    runs = part.record["sessions"][sid]["runs"]
    return min((run["virtual_start"], run["arrival_number"]) for run in runs)[0]


def _part_changes(loaded: LoadedHeader, part: Part, answer: Answer, want: Wanted) -> Changes:
    sid, ended = want.sid, want.ended
    record = part.record
    terms = placing_terms(record["eras"])
    counts, latest, units = loaded.counts, loaded.latest_call_until, loaded.in_flight_sums
    changes = limit_changes.nothing(HeaderChange(0, 0, 0, 0, ""))
    if answer["status"] != "late":
        touched = dict.fromkeys([sid, *part.known, *answer["woken_session_ids"], *([ended] if ended else [])])
        for each in touched:
            before, after = _before_and_after(changes, part, each, sid, terms)
            counts = counts.changed(before.counts(each), after.counts(each))
            units = _changed_units(units, units_of_calls(before), units_of_calls(after))
            latest = max([latest, *(call.call_until for call in after.calls.values())])
        tails = {
            key: TailRow(quoted(key), tail["virtual_finish"], tail["run_count"])
            for key, tail in record["tails"].items()
        }
        limit_changes.add_tails(changes, part.tails, tails)
        counts = counts._replace(tails=counts.tails + len(tails) - len(part.tails))
        windows = {name: log_entries(log) for name, log in record["window_logs"].items()}
        limit_changes.add_windows(changes, part.windows, windows)
    return changes._replace(header=header_of(record, counts, units, latest, with_people=False))


def _changed_units(units: dict[str, int], before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    if before == after:
        return units
    sums = {
        unit: units.get(unit, 0) + after.get(unit, 0) - before.get(unit, 0) for unit in {**units, **before, **after}
    }
    return {unit: count for unit, count in sums.items() if count}


def _before_and_after(changes: Changes, part: Part, each: str, sid: str, terms: Terms) -> tuple[SeatRows, SeatRows]:
    """Add what has changed in a session; return what is known of it before and after."""
    seat = part.record["sessions"].get(each)
    opened = part.opened if each == sid else 0
    places = part.places.get(each)
    if places is None or seat is None:
        before = part.known.get(each, NO_ROWS)
        after = NO_ROWS if seat is None else rows_of(each, seat, terms, opened=opened)
        limit_changes.add_seat(changes, each, before, after)
        return before, after
    after = rows_of(each, seat, terms)
    session = session_row(each, seat, opened=0)
    before = SeatRows(session._replace(unconfirmed="[]"), places, {})
    changes.granted.append(
        GrantedRow(
            each, seat["next_call_id"], seat["grant_number"], session.unconfirmed, session.open_call_count, (*places,)
        )
    )
    limit_changes.add_parts(changes, each, before, after)
    return before, after


# With all of a limit's rows.


def find(header: Header, rows: Rows, sid: str) -> Record:
    """Return the record with no session but one, of which these are the rows; the others are counted."""
    if header.older:
        return state.only(read_older(header.older), sid)
    loaded = header.load()
    if loaded.parts is not None:
        return state.only(whole_record(header, rows), sid)
    return found_record(header, loaded, rows.seats.get(sid, NO_ROWS), sid)


def read_record(header: Header, reader: WholeReader) -> Record:
    """Return all that there is of a limit, as it is."""
    return read_older(header.older) if header.older else whole_record(header, reader.whole())


def read_whole(
    header: Header, reader: WholeReader, raw: int, *, seen: int = -1, elapsed: int = 0
) -> tuple[Record, Rows]:
    """Return the record, and the rows that it was read from.

    If some of them are gone, or are of another time, the record has forgotten all sessions.
    """
    if header.older:
        return read_older(header.older), _EMPTY
    rows = reader.whole()
    record = whole_record(header, rows)
    if header.load().parts is None and _problems(header, rows):
        now = state.logical(record, raw, seen=seen, elapsed=elapsed)
        if record["eras"]:
            state.start_again(record, state.terms_at(record, now), now, header.load().latest_call_until)
    return record, rows


def check(header: Header, reader: WholeReader) -> list[str]:
    """Say where the rows of a limit are not what its header counts, or not as a step would have written them."""
    if header.older:
        return []
    rows = reader.whole()
    if header.load().parts is not None:
        return [] if rows == _EMPTY else ["the header has the whole limit, and there are rows beside it"]
    expected = all_rows(whole_record(header, rows))
    return _problems(header, rows) + [
        f"session {sid} is kept as {seat}, not as {expected.seats.get(sid)}"
        for sid, seat in rows.seats.items()
        if expected.seats.get(sid) != seat
    ]


def _problems(header: Header, rows: Rows) -> list[str]:
    loaded = header.load()
    found = [
        f"the header counts {counted} of {name}, and there are {count}"
        for name, counted, count in zip(Counts._fields, loaded.counts, counts_of(rows), strict=True)
        if counted != count
    ]
    if header.placed_run_count != loaded.counts.placed_runs:
        found.append(f"the header has {header.placed_run_count} and {loaded.counts.placed_runs} runs in line")
    for sid, seat in rows.seats.items():
        if seat.session is None:
            found.append(f"session {sid} has rows and is not there")
        elif seat.session.open_call_count != len(seat.calls):
            found.append(f"session {sid} counts {seat.session.open_call_count} calls and has {len(seat.calls)}")
    record = whole_record(header, rows)
    if sums_of(record) != loaded.window_sums:
        found.append(f"the windows sum up to {sums_of(record)}, not {loaded.window_sums}")
    units = state.units_of(call for each in record["sessions"].values() for call in each["calls"])
    if units != loaded.in_flight_sums:
        found.append(f"the calls in flight take {units}, not {loaded.in_flight_sums}")
    runs: dict[str, int] = {}
    for each in record["sessions"].values():
        for run in each["runs"]:
            runs[run["key"]] = runs.get(run["key"], 0) + 1
    tails = {key: tail["run_count"] for key, tail in record["tails"].items()}
    if tails != runs:
        found.append(f"the tails count {tails} runs of their keys, and there are {runs}")
    return found


def replace(header: Header | None, before: Rows, record: Record) -> Changes:
    """Return what to write so that the header, or the header and the rows, say what the record says."""
    latest = _latest(record, header.load().latest_call_until if header is not None and not header.older else 0)
    packed = packed_header_of(record, latest, with_people=True)
    if packed is not None:
        return limit_changes.between(before, _EMPTY, packed)
    after = all_rows(record)
    units = state.units_of(call for session in record["sessions"].values() for call in session["calls"])
    change = header_of(record, counts_of(after), units, latest, with_people=True)
    return limit_changes.between(before, after, change)


def first_rows(record: Record) -> Changes:
    """Return what to write for a limit that is not there yet."""
    return replace(None, _EMPTY, record)
