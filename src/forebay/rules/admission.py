"""Decides whether calls may start now, and if not, what they wait for and when to ask again.

`decide` works on the record that it is given and leaves it as it is to be stored. One store has the same rules in
another language, and a test drives both with the same steps: change them together, and keep to whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from forebay.model.limit_record import Answer, Ask, DeclaredRun, GrantedCall, LimitSession, Record, Terms, WaitingRun
from forebay.rules import cooldown, forecast, in_hand
from forebay.rules import kept_places as places
from forebay.rules import limit_state as state
from forebay.rules import window_log as logs
from forebay.rules.forecast import Places

UNSENT = "unsent"
UNREACHED = "unreached"  # unsent, because the provider could not be reached: a failure for the breaker
CUT_OFF = "cut_off"
TIMED_OUT = "timed_out"


def decide(record: Record, ask: Ask, raw: int) -> Answer:
    """Apply what a session says and asks for; `raw` is the store's own clock."""
    begun = _begin(record, ask, raw)
    if begun.terms is None:
        return unknown(begun.now)
    now, terms, seat = begun.now, begun.terms, record["sessions"].get(ask["session_id"])
    if seat is not None and begun.is_as_known and only_beats(seat, ask):
        return _beat(record, seat, ask, terms, now)
    record["version"] += 1
    lost = int(seat is None)
    if seat is None:
        seat = record["sessions"][ask["session_id"]] = _new_seat()
    if status := places.refusal(seat, ask, now):
        return _answer(record, seat, now, status=status)
    keep = ask.get("keep_ms", 0)
    if not keep and 0 < ask["request_number"] < seat["request_number"]:
        return _answer(record, seat, now, status="late")
    restamped = _hear_place(record, seat, ask, terms, now) if keep else _hear(record, seat, ask, terms, now)
    more = state.prune(record, terms, now, most=state.MOST_ENDINGS)
    more = places.look_after(record, terms, now) or more
    served = _serve(record, ask["session_id"], terms, now)
    _use_grants(record, seat, ask, served, terms, now)
    answer = _answer(record, seat, now)
    _fill_in(answer, record, seat, terms, now)
    answer["session_lost"] = lost
    answer["restamps"] = [
        {"call_id": call_id, "granted_at": now, "max_age_ms": state.late_now(record)} for call_id in restamped
    ]
    answer["woken_session_ids"] = served.wakes
    answer["waits"] = forecast.waits(record, ask["session_id"], served.places, terms, now)
    if keep and answer["waits"]:
        places.tell(record, seat, answer["waits"][0], keep, now)
    answer["has_more"] = int(more or served.more)
    if ask["terms_version"] != record["terms_version"]:
        answer["terms"] = [terms]
    return answer


def beat(record: Record, ask: Ask, raw: int) -> Answer | None:
    """Apply a heartbeat, for which a record needs no more than the session, its `rest`, and the sums of its logs.

    Return None where the ask is more than that, or meets a jump of the clock, new terms or a loss: then the record has
    to be read again, with what `decide` needs.
    """
    begun = _begin(record, ask, raw)
    seat = record["sessions"].get(ask["session_id"])
    if begun.terms is None or seat is None or not begun.is_as_known or not only_beats(seat, ask):
        return None
    return _beat(record, seat, ask, begun.terms, begun.now)


class _Begun(NamedTuple):
    """`is_as_known`: nothing has happened that all sessions have to do with. No terms: the limit has none."""

    now: int
    terms: Terms | None
    is_as_known: bool


def _begin(record: Record, ask: Ask, raw: int) -> _Begun:
    known = record["clock_offset_ms"], record["generation"], record["terms_version"]
    now = state.logical(record, raw, seen=ask["seen_at"], elapsed=ask["elapsed_ms"])
    if not record["eras"]:
        return _Begun(now, None, is_as_known=False)
    terms = state.terms_at(record, now)
    _notice_loss(record, ask, terms, now)
    return _Begun(now, terms, known == (record["clock_offset_ms"], record["generation"], record["terms_version"]))


def _hear(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> list[int]:
    """Take up what a session says; return the calls that start now."""
    _renew(seat, ask, terms, now)
    seat["label"] = ask["label"]
    seat["unconfirmed"] = [grant for grant in seat["unconfirmed"] if grant["number"] > ask["confirmed_grant_number"]]
    for window in state.counted(record):
        logs.expire(state.log_of(record, window.name), now, window.wide)
    state.report_delay(record, terms, ask["grant_delay_ms"], now)
    # Also without a number: calls are known by their own, so what is said twice, or late, counts once.
    for hint in ask["refusals"]:
        cooldown.throttle(record, terms, hint, now)
    _finish(record, seat, ask, terms, now)
    if ask["request_number"] == 0:
        return []
    seat["request_number"] = ask["request_number"]
    restamped = [call_id for call_id in ask["restamp_call_ids"] if _restamp(record, seat, call_id, terms, now)]
    _line_up(record, seat, ask["runs"], terms)
    return restamped


def _hear_place(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> list[int]:
    """Take up what the owner of a kept place says; return the calls that start now."""
    for window in state.counted(record):
        logs.expire(state.log_of(record, window.name), now, window.wide)
    seat["label"] = ask["label"]
    if places.is_held(seat, now):
        places.bind(record, seat, ask, terms, now)  # the same ask once more: its answer was lost
        return []
    if "place" not in seat or seat["place"]["holder"]:
        for call in seat["calls"]:
            _cut_off(record, ask["session_id"], seat["label"], call, terms)
        places.begin(record, seat, ask, now)
    seat["request_number"] = ask["request_number"]
    wish = ask["runs"][0] if ask["runs"] else None
    if seat["calls"]:
        kept = seat["calls"][0]
        if wish and places.wants_the_same(wish, kept) and _restamp(record, seat, kept["id"], terms, now):
            places.bind(record, seat, ask, terms, now)
            return []
        places.take_back(record, seat, terms, now)
    places.line_up(record, seat, ask, terms, now)
    return []


def only_beats(seat: LimitSession, ask: Ask) -> bool:
    """Return whether a session that is alive says only that it still is: then nothing else has to be looked at."""
    return (
        not places.is_foreign(seat, ask)
        and ask["request_number"] == 0
        and not ask["ended_calls"]
        and not ask["refusals"]
        and seat["due_at"] == seat["ends_at"]
        and all(grant["number"] > ask["confirmed_grant_number"] for grant in seat["unconfirmed"])
    )


def _beat(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> Answer:
    _renew(seat, ask, terms, now)
    answer = _answer(record, seat, now)
    _fill_in(answer, record, seat, terms, now)
    if ask["terms_version"] != record["terms_version"]:
        answer["terms"] = [terms]
    return answer


def _renew(seat: LimitSession, ask: Ask, terms: Terms, now: int) -> None:
    """Begin the session's lease again.

    A seat that is new continues where the session is: what it has said and heard never means something else again.
    """
    seat["ends_at"] = seat["due_at"] = now + terms["lease_ms"]
    seat["next_call_id"] = max(seat["next_call_id"], ask["next_call_id"])
    seat["grant_number"] = max(seat["grant_number"], ask["confirmed_grant_number"])
    seat["request_number"] = max(seat["request_number"], ask["answered_request_number"])


def _fill_in(answer: Answer, record: Record, seat: LimitSession, terms: Terms, now: int) -> None:
    answer["other_caller_count"] = state.waiting_count(record) - sum(run["caller_count"] for run in seat["runs"])
    answer["in_flight_count"] = state.in_flight(record)
    answer["in_flight_sums"] = [*state.in_flight_sums(record, terms).values()]
    answer["window_sums"] = [state.log_of(record, logs.name(bound))["sum"] for bound in terms["windows"]]
    answer["cooldown_level"] = record["cooldown"]["level"]
    answer["cut_off_count"] = state.cut_off_count(record)
    answer["shut_for_ms"] = max(0, state.gate(record, terms, now)[1] - now)


def unknown(now: int) -> Answer:
    """What a store says that has no such limit."""
    return _answer(state.new_record(now), _new_seat(), now, status="unknown")


def _answer(record: Record, seat: LimitSession, now: int, status: str = "ok") -> Answer:
    return {
        "status": status,
        "now": now,
        "version": record["version"],
        "generation": record["generation"],
        "terms_version": record["terms_version"],
        "session_lost": 0,
        "grants": [*seat["unconfirmed"]] if status == "ok" else [],
        "restamps": [],
        "waits": [],
        "terms": [],
        "woken_session_ids": [],
        "other_caller_count": 0,
        "session_count": state.session_count(record),
        "in_flight_count": 0,
        "in_flight_sums": [],
        "window_sums": [],
        "cooldown_level": 0,
        "cut_off_count": 0,
        "clock_offset_ms": record["clock_offset_ms"],
        "shut_for_ms": 0,
        "cooldown_began_at": record["cooldown"]["began_at"],
        "has_more": 0,
    }


def _new_seat() -> LimitSession:
    return {
        "ends_at": 0,
        "due_at": 0,
        "request_number": 0,
        "grant_number": 0,
        "next_call_id": 1,
        "label": "",
        "calls": [],
        "runs": [],
        "unconfirmed": [],
    }


def _notice_loss(record: Record, ask: Ask, terms: Terms, now: int) -> None:
    """A store that knows less than a session remembers has forgotten: nothing is granted until that cannot matter."""
    seat = record["sessions"].get(ask["session_id"])
    last_n = seat["request_number"] if seat else 0
    last_g = seat["grant_number"] if seat else 0
    # A request that was long on its way may find its session ended, and rightly so.
    sure = ask["is_sure"] and now < ask["seen_at"] + terms["lease_ms"]
    if ask["seen_version"] > record["version"] or (
        sure and (last_n < ask["answered_request_number"] or last_g < ask["confirmed_grant_number"])
    ):
        record["generation"] += 1
        record["version"] = max(record["version"], ask["seen_version"])
        state.hold_back(record, terms, now)
        # Some of these calls were given back since, and nobody would do it again; until then all of them are over.
        record["held_back_until"] = max(record["held_back_until"], state.rest_of(record)["latest_call_until"])
        if "rest" in record:
            record["rest"] = record["rest"] | {"in_flight_count": 0, "in_flight_sums": {}, "cut_off_count": 0}
        for other in record["sessions"].values():
            for call in other["calls"]:
                record["held_back_until"] = max(record["held_back_until"], call["call_until"])
            other["calls"] = []
            other["unconfirmed"] = []


def _finish(record: Record, seat: LimitSession, ask: Ask, terms: Terms, now: int) -> None:
    for done in ask["ended_calls"]:
        call = _taken(seat, done["call_id"])
        if call is None:
            continue  # said before, or forgotten
        if done["outcome"] in {UNSENT, UNREACHED}:
            if done["outcome"] == UNREACHED:
                cooldown.ended(record, terms, "failed", call["granted_at"], now)
            state.uncount(record, call["units"], call["counted_at"], now)
            continue
        reserved = call["units"]
        failed = done["outcome"] == TIMED_OUT
        cooldown.ended(record, terms, "failed" if failed else done["outcome"], call["granted_at"], now)
        if failed or done["outcome"] == CUT_OFF:
            # In flight it counts what it took, if that is known.
            call["units"] = call["units"] | done["units"]
            _cut_off(record, ask["session_id"], seat["label"], call, terms)
        else:
            took = now - call["granted_at"]
            record["mean_call_ms"] = (
                took if record["mean_call_ms"] == 0 else record["mean_call_ms"] + (took - record["mean_call_ms"]) // 8
            )
        for unit, used in sorted(done["units"].items()):
            more = used - reserved.get(unit, 0)
            if more > 0:
                state.count(record, {unit: more}, max(now, record["last_counted_at"]))
            elif more < 0:
                state.uncount(record, {unit: -more}, call["counted_at"], now)


def _cut_off(record: Record, sid: str, label: str, call: GrantedCall, terms: Terms) -> None:
    """Let a call count as one of a session that has ended: until its provider cannot work on it any more."""
    ended = record["sessions"].setdefault(state.cut_off_sid(sid), _new_seat())
    if not terms["stops_on_disconnect"]:
        ended["due_at"] = min([call["call_until"], *(each["call_until"] for each in ended["calls"])])
    ended["label"] = label
    ended["next_call_id"] = max(ended["next_call_id"], call["id"] + 1)
    ended["calls"].append(call)


def _taken(seat: LimitSession, call_id: int) -> GrantedCall | None:
    for index, call in enumerate(seat["calls"]):
        if call["id"] == call_id:
            return seat["calls"].pop(index)
    return None


def _restamp(record: Record, seat: LimitSession, call_id: int, terms: Terms, now: int) -> bool:
    """Let a call that starts late count from now on, which is always admissible while it still counts at all."""
    call = next((each for each in seat["calls"] if each["id"] == call_id), None)
    if call is None or state.gate(record, terms, now)[1] > now:
        return False
    for _, wide in state.widths(terms):
        if call["counted_at"] + wide <= now:
            return False
    counted_at = state.counted_at(record, now)
    if call["counted_at"] < counted_at:
        state.uncount(record, call["units"], call["counted_at"], now)
        state.count(record, call["units"], counted_at)
    call["granted_at"], call["counted_at"] = now, counted_at
    call["call_until"] = now + state.held_for(record, terms)
    return True


def _line_up(record: Record, seat: LimitSession, wishes: list[DeclaredRun], terms: Terms) -> None:
    """Who was in line keeps the place; others stand behind the last of their key."""
    before = {run["id"]: run for run in seat["runs"]}
    seat["runs"] = []
    for wish in wishes:
        # What was granted and not heard of is still declared.
        given = sum(grant["call_count"] for grant in seat["unconfirmed"] if grant["run_id"] == wish["id"])
        count = wish["caller_count"] - given
        if count <= 0:
            continue
        run = before.pop(wish["id"], None)
        if run is None:
            record["arrival_count"] += 1
            run = {
                "id": wish["id"],
                "key": wish["key"],
                "caller_count": count,
                "units": wish["units"],
                "label": wish["label"],
                "virtual_start": state.enter_line(record, wish["key"], front=bool(wish["front"])),
                "arrival_number": record["arrival_count"],
            }
        else:
            run["caller_count"] = count
        state.extend_tail(record, run, terms)
        seat["runs"].append(run)
    for run in before.values():
        state.left_line(record, run["key"])


class _Head(NamedTuple):
    """What the first that does not fit wants, and when it will."""

    units: dict[str, int]
    starts_at: int


class _Used(NamedTuple):
    """Calls in flight, and how much of each bounded unit they take."""

    calls: int
    units: dict[str, int]

    def with_call(self, units: dict[str, int]) -> _Used:
        return _Used(self.calls + 1, {unit: used + units.get(unit, 0) for unit, used in self.units.items()})


class _Served(NamedTuple):
    """What a step granted: the other sessions that got something, and whether more is to do.

    `places` are the first of the line, and the first of those that have to confirm something before they are served.
    `run_id`: the asker's one that was granted something last, if any was; `granted_count`: of all sessions.
    """

    wakes: list[str]
    places: Places
    more: bool
    run_id: int | None
    granted_count: int


def _serve(record: Record, sid: str, terms: Terms, now: int) -> _Served:
    """Grant from the head of the line as long as it fits; who is behind may pass only if the head starts no later.

    Only the first places are looked at, and a run that moves behind them is looked at by the next step.
    """
    line, unconfirmed = state.standing(record, terms, asking=sid)
    heads = line[: state.HEADS]
    unconfirmed = unconfirmed[: state.HEADS]
    last = state.order(heads[-1]) if len(line) > state.HEADS else state.horizon(record)
    waiting = [*heads]
    used = _Used(state.in_flight(record), state.in_flight_sums(record, terms))
    head: _Head | None = None
    woken: list[str] = []
    granted_count = 0
    shut = state.gate(record, terms, now)[1] > now
    while waiting and not shut and granted_count < state.MOST_GRANTS and _has_room(record, terms, used.calls, now):
        place = waiting[0]
        run = place.run
        if not _fits(record, terms, run, used) or (head and not _spares(record, terms, run, head, used)):
            if head is None:
                head = _Head(run["units"], now + state.windows_free_in(record, terms, run["units"], now))
            del waiting[0]
            continue
        _grant(record, place, terms, now, more=place.sid in woken)
        used = used.with_call(run["units"])
        granted_count += 1
        if place.sid not in woken:
            woken.append(place.sid)
        if run["caller_count"] == 0:
            del waiting[0]
            record["sessions"][place.sid]["runs"].remove(run)
            state.left_line(record, run["key"])
        elif last is not None and state.order(place) > last:
            del waiting[0]
        else:
            _fall_in(waiting)
    if state.nobody_waits(record):
        record["virtual_time"] = 0
    return _Served(
        sorted(name for name in woken if name != sid),
        Places([*heads, *unconfirmed], are_all=last is None and max(len(heads), len(unconfirmed)) < state.HEADS),
        granted_count > 0 and (bool(waiting) or last is not None) and _has_room(record, terms, used.calls, now),
        record["sessions"][sid]["unconfirmed"][-1]["run_id"] if sid in woken else None,
        granted_count,
    )


def _use_grants(record: Record, seat: LimitSession, ask: Ask, served: _Served, terms: Terms, now: int) -> None:  # noqa: PLR0917 - of this module only
    """Have the owner of a kept place hold what was granted to it; grant more to others whose callers come quickly."""
    if ask.get("keep_ms"):
        if seat["unconfirmed"] and not seat["place"]["holder"]:
            places.bind(record, seat, ask, terms, now)
    elif served.run_id is not None:
        _grant_in_hand(record, ask, served, terms, now)


def _grant_in_hand(record: Record, ask: Ask, served: _Served, terms: Terms, now: int) -> None:
    """Grant calls to come to the run that was granted something last."""
    seat = record["sessions"][ask["session_id"]]
    for run in ask["runs"]:
        wanted = min(run.get("in_hand_count", 0), state.MOST_GRANTS - served.granted_count)
        if run["id"] == served.run_id and wanted > 0:
            for _ in range(min(wanted, in_hand.room(record, terms, run["units"], now))):
                _open_call(record, seat, run, terms, now, more=True)


def _fall_in(waiting: list[state.Place]) -> None:
    """The first has moved back: all others are in order."""
    at = 0
    while at + 1 < len(waiting) and state.order(waiting[at + 1]) < state.order(waiting[at]):
        waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
        at += 1


def _has_room(record: Record, terms: Terms, used: int, now: int) -> bool:
    """Return whether any call could start, whatever it takes of the windows."""
    return not 0 <= terms["in_flight"] <= used and cooldown.room(record, terms, now) > 0


def _fits(record: Record, terms: Terms, run: WaitingRun, used: _Used) -> bool:
    for unit_bound in terms["in_flight_units"]:
        need = run["units"].get(unit_bound["unit"], 0)
        if need > 0 and used.units[unit_bound["unit"]] + need > unit_bound["n"]:
            return False
    for bound in terms["windows"]:
        if state.log_of(record, logs.name(bound))["sum"] + run["units"].get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _spares(record: Record, terms: Terms, run: WaitingRun, head: _Head, used: _Used) -> bool:
    """Whether the head can still start when it could, with this one before it."""
    for unit_bound in terms["in_flight_units"]:
        unit = unit_bound["unit"]
        need = run["units"].get(unit, 0)
        if need > 0 and used.units[unit] + need + head.units.get(unit, 0) > unit_bound["n"]:
            return False
    if 0 <= terms["in_flight"] < used.calls + 2 or record["cooldown"]["ramp_began_at"] != 0:
        return False
    for bound in terms["windows"]:
        log = state.log_of(record, logs.name(bound))
        then = logs.used_at(log, head.starts_at, logs.width(bound, terms))
        if then + run["units"].get(bound["unit"], 0) + head.units.get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _grant(record: Record, place: state.Place, terms: Terms, now: int, *, more: bool) -> None:
    """`more`: its session was given something in this same step, which nobody has been told yet."""
    run = place.run
    _open_call(record, record["sessions"][place.sid], run, terms, now, more=more)
    record["virtual_time"] = max(record["virtual_time"], run["virtual_start"])
    run["virtual_start"] += state.cost(run["units"], terms)
    run["caller_count"] -= 1


def _open_call(
    record: Record, seat: LimitSession, run: WaitingRun | DeclaredRun, terms: Terms, now: int, *, more: bool
) -> None:
    call_id = seat["next_call_id"]
    seat["next_call_id"] += 1
    until = now + state.held_for(record, terms)
    counted_at = state.counted_at(record, now)
    call: GrantedCall = {
        "id": call_id,
        "granted_at": now,
        "counted_at": counted_at,
        "call_until": until,
        "units": run["units"],
        "label": run["label"],
    }
    if run["key"]:
        call["key"] = run["key"]
    seat["calls"].append(call)
    state.count(record, run["units"], counted_at)
    cooldown.granted(record, now)
    if more and seat["unconfirmed"][-1]["run_id"] == run["id"]:
        seat["unconfirmed"][-1]["call_count"] += 1
    else:
        seat["grant_number"] += 1
        seat["unconfirmed"].append(
            {
                "number": seat["grant_number"],
                "run_id": run["id"],
                "call_count": 1,
                "first_call_id": call_id,
                "granted_at": now,
                "max_age_ms": state.late_now(record),
            }
        )
