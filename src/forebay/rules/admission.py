"""Decides whether calls may start now, and if not, what they wait for and when to ask again.

`decide` works on the record that it is given and leaves it as it is to be stored. One store has the same rules in
another language, and a test drives both with the same steps: change them together, and keep to whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from forebay.model.limit_record import Answer, Ask, Call, Record, Run, Seat, Terms, Wish
from forebay.rules import cooldown, forecast
from forebay.rules import limit_state as state
from forebay.rules import window_log as logs

SCALE = 1000
UNSENT = "unsent"
UNREACHED = "unreached"  # unsent, because the provider could not be reached: a failure for the breaker
CUT_OFF = "cut_off"
TIMED_OUT = "timed_out"


def decide(record: Record, ask: Ask, raw: int) -> Answer:
    """Apply what a session says and asks for; `raw` is the store's own clock."""
    now = state.logical(record, raw, seen=ask["seen"], elapsed=ask["elapsed"])
    if not record["eras"]:
        return unknown(now)
    terms = state.terms_at(record, now)
    _notice_loss(record, ask, terms, now)
    record["v"] += 1
    lost = int(ask["sid"] not in record["seats"])
    seat = record["seats"].setdefault(ask["sid"], _new_seat())
    if 0 < ask["n"] < seat["n"]:
        return _answer(record, seat, now, status="late")
    seat["until"] = now + terms["lease"]
    seat["label"] = ask["label"]
    # A seat that is new goes on where the session is: what it has said and heard never means something else again.
    seat["next"] = max(seat["next"], ask["next"])
    seat["g"] = max(seat["g"], ask["heard"])
    seat["n"] = max(seat["n"], ask["acked"])
    seat["out"] = [grant for grant in seat["out"] if grant["g"] > ask["heard"]]
    restamped: list[int] = []
    for window in state.counted(record):
        logs.expire(state.log_of(record, window.name), now, window.wide)
    # Also without a number: calls are known by their own, so what is said twice, or late, counts once.
    for hint in ask["hints"]:
        cooldown.throttle(record, terms, hint, now)
    _finish(record, seat, ask, terms, now)
    if ask["n"] > 0:
        seat["n"] = ask["n"]
        for call_id in ask["starts"]:
            if _restamp(record, seat, call_id, terms, now):
                restamped += [call_id]
        _line_up(record, seat, ask["runs"], terms)
    state.prune(record, terms, now)
    wakes = _serve(record, ask["sid"], terms, now)
    answer = _answer(record, seat, now)
    answer["lost"] = lost
    answer["starts"] = [{"id": call_id, "at": now, "late": state.late_now(record)} for call_id in restamped]
    answer["wakes"] = wakes
    answer["others"] = sum(
        run["count"] for sid, other in record["seats"].items() if sid != ask["sid"] for run in other["runs"]
    )
    answer["waits"] = forecast.waits(record, ask["sid"], terms, now)
    answer["used"] = state.in_flight(record)
    answer["sums"] = [state.log_of(record, logs.name(bound))["sum"] for bound in terms["windows"]]
    answer["level"] = record["cool"]["level"]
    answer["cut_off"] = state.cut_off_count(record)
    answer["shut"] = max(0, state.gate(record, terms, now)[1] - now)
    if ask["tv"] != record["tv"]:
        answer["terms"] = [terms]
    return answer


def unknown(now: int) -> Answer:
    """What a store says that has no such limit."""
    return _answer(state.new_record(now), _new_seat(), now, status="unknown")


def _answer(record: Record, seat: Seat, now: int, status: str = "ok") -> Answer:
    return {
        "status": status,
        "now": now,
        "v": record["v"],
        "gen": record["gen"],
        "tv": record["tv"],
        "lost": 0,
        "grants": [] if status == "late" else [*seat["out"]],
        "starts": [],
        "waits": [],
        "terms": [],
        "wakes": [],
        "others": 0,
        "sessions": sum(each["until"] > now for each in record["seats"].values()),
        "used": 0,
        "sums": [],
        "level": 0,
        "cut_off": 0,
        "offset": record["offset"],
        "shut": 0,
        "began": record["cool"]["began"],
    }


def _new_seat() -> Seat:
    return {"until": 0, "n": 0, "g": 0, "next": 1, "label": "", "calls": [], "runs": [], "out": []}


def _notice_loss(record: Record, ask: Ask, terms: Terms, now: int) -> None:
    """A store that knows less than a session remembers has forgotten: nothing is granted until that cannot matter."""
    seat = record["seats"].get(ask["sid"])
    last_n = seat["n"] if seat else 0
    last_g = seat["g"] if seat else 0
    # A request that was long on its way may find its session ended, and rightly so.
    sure = ask["sure"] and now < ask["seen"] + terms["lease"]
    if ask["version"] > record["v"] or (sure and (last_n < ask["acked"] or last_g < ask["heard"])):
        record["gen"] += 1
        record["v"] = max(record["v"], ask["version"])
        state.hold_back(record, terms, now)
        # Some of these calls were given back since, and nobody would do it again; until then all of them are over.
        for other in record["seats"].values():
            for call in other["calls"]:
                record["hold"] = max(record["hold"], call["until"])
            other["calls"] = []
            other["out"] = []


def _finish(record: Record, seat: Seat, ask: Ask, terms: Terms, now: int) -> None:
    for done in ask["done"]:
        call = _taken(seat, done["id"])
        if call is None:
            continue  # said before, or forgotten
        if done["outcome"] in {UNSENT, UNREACHED}:
            if done["outcome"] == UNREACHED:
                cooldown.ended(record, terms, "failed", call["at"], now)
            state.uncount(record, call["units"], call["at"], now)
            continue
        failed = done["outcome"] == TIMED_OUT
        cooldown.ended(record, terms, "failed" if failed else done["outcome"], call["at"], now)
        if failed or done["outcome"] == CUT_OFF:
            _cut_off(record, ask["sid"], seat["label"], call)
        else:
            took = now - call["at"]
            record["mean"] = took if record["mean"] == 0 else record["mean"] + (took - record["mean"]) // 8
        for unit, used in sorted(done["units"].items()):
            more = used - call["units"].get(unit, 0)
            if more > 0:
                state.count(record, {unit: more}, now)
            elif more < 0:
                state.uncount(record, {unit: -more}, call["at"], now)


def _cut_off(record: Record, sid: str, label: str, call: Call) -> None:
    """Let a call count as one of a session that has ended: until its provider cannot work on it any more."""
    ended = record["seats"].setdefault(state.cut_off_sid(sid), _new_seat())
    ended["label"] = label
    ended["next"] = max(ended["next"], call["id"] + 1)
    ended["calls"].append(call)


def _taken(seat: Seat, call_id: int) -> Call | None:
    for index, call in enumerate(seat["calls"]):
        if call["id"] == call_id:
            return seat["calls"].pop(index)
    return None


def _restamp(record: Record, seat: Seat, call_id: int, terms: Terms, now: int) -> bool:
    """Let a call that starts late count from now on, which is always admissible while it still counts at all."""
    call = next((each for each in seat["calls"] if each["id"] == call_id), None)
    if call is None or state.gate(record, terms, now)[1] > now:
        return False
    for _, wide in state.widths(terms):
        if call["at"] + wide <= now:
            return False
    if call["at"] < now:
        state.uncount(record, call["units"], call["at"], now)
        state.count(record, call["units"], now)
    call["at"] = now
    call["until"] = now + state.held_for(record, terms)
    return True


def cost(units: dict[str, int], terms: Terms) -> int:
    """The largest share of any bound that a call takes, in thousandths."""
    most = 1
    if terms["in_flight"] > 0:
        most = max(most, int(SCALE / terms["in_flight"]))
    for bound in terms["windows"]:
        if bound["n"] > 0:
            most = max(most, int(units.get(bound["unit"], 0) * SCALE / bound["n"]))
    return min(most, SCALE)


def _line_up(record: Record, seat: Seat, wishes: list[Wish], terms: Terms) -> None:
    """Who was in line keeps the place; others stand behind the last of their key."""
    before = {run["id"]: run for run in seat["runs"]}
    seat["runs"] = []
    for wish in wishes:
        # What was granted and not heard of is still declared.
        given = sum(grant["count"] for grant in seat["out"] if grant["run"] == wish["id"])
        count = wish["count"] - given
        if count <= 0:
            continue
        run = before.get(wish["id"])
        if run is None:
            record["tick"] += 1
            run = {
                "id": wish["id"],
                "key": wish["key"],
                "count": count,
                "units": wish["units"],
                "label": wish["label"],
                "tag": _tag(record, seat, wish, terms),
                "tick": record["tick"],
            }
        else:
            run["count"] = count
        seat["runs"].append(run)


def _tag(record: Record, seat: Seat, wish: Wish, terms: Terms) -> int:
    if wish["front"]:
        return record["virtual"] - state.FOREVER
    tag = record["virtual"]
    for other in record["seats"].values():
        if other is not seat:
            for run in other["runs"]:
                tag = max(tag, _behind(run, wish["key"], terms))
    for run in seat["runs"]:
        tag = max(tag, _behind(run, wish["key"], terms))
    return tag


def _behind(run: Run, key: str, terms: Terms) -> int:
    return run["tag"] + run["count"] * cost(run["units"], terms) if run["key"] == key else -state.FOREVER


class _Head(NamedTuple):
    """What the first that does not fit wants, and when it will."""

    units: dict[str, int]
    starts_at: int


def _serve(record: Record, sid: str, terms: Terms, now: int) -> list[str]:
    """Grant from the head of the line as long as it fits; who is behind may pass only if the head starts no later.

    A session that has not confirmed its last grants gets no more, unless it is the one that asks.
    """
    if state.gate(record, terms, now)[1] > now:
        return []
    silent = {name for name, seat in record["seats"].items() if seat["out"] and name != sid}
    waiting = [place for place in state.line(record) if place.sid not in silent]
    used = state.in_flight(record)
    waiting = [place for place in waiting if not state.too_large(terms, place.run["units"])]
    head: _Head | None = None
    woken: list[str] = []
    while waiting:
        place = waiting[0]
        run = place.run
        if not _fits(record, terms, run, used, now) or (head and not _spares(record, terms, run, head, used)):
            if head is None:
                head = _Head(run["units"], now + state.windows_free_in(record, terms, run["units"], now))
            del waiting[0]
            continue
        _grant(record, place, terms, now, more=place.sid in woken)
        used += 1
        if place.sid not in woken:
            woken.append(place.sid)
        if run["count"] == 0:
            del waiting[0]
            record["seats"][place.sid]["runs"].remove(run)
        else:
            _fall_in(waiting)
    if not any(seat["runs"] for seat in record["seats"].values()):
        record["virtual"] = 0
    return sorted(name for name in woken if name != sid)


def _fall_in(waiting: list[state.Place]) -> None:
    """The first has moved back: all others are in order."""
    at = 0
    while at + 1 < len(waiting) and state.order(waiting[at + 1]) < state.order(waiting[at]):
        waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
        at += 1


def _fits(record: Record, terms: Terms, run: Run, used: int, now: int) -> bool:
    if 0 <= terms["in_flight"] <= used or cooldown.room(record, terms, now) <= 0:
        return False
    for bound in terms["windows"]:
        if state.log_of(record, logs.name(bound))["sum"] + run["units"].get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _spares(record: Record, terms: Terms, run: Run, head: _Head, used: int) -> bool:
    """Whether the head can still start when it could, with this one before it."""
    if 0 <= terms["in_flight"] < used + 2 or record["cool"]["ramp"] != 0:
        return False
    for bound in terms["windows"]:
        log = state.log_of(record, logs.name(bound))
        then = logs.used_at(log, head.starts_at, logs.width(bound, terms))
        if then + run["units"].get(bound["unit"], 0) + head.units.get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _grant(record: Record, place: state.Place, terms: Terms, now: int, *, more: bool) -> None:
    """`more`: its session was given something in this same step, which nobody has been told yet."""
    seat, run = record["seats"][place.sid], place.run
    call_id = seat["next"]
    seat["next"] += 1
    until = now + state.held_for(record, terms)
    call: Call = {"id": call_id, "at": now, "until": until, "units": run["units"], "label": run["label"]}
    if run["key"]:
        call["key"] = run["key"]
    seat["calls"].append(call)
    state.count(record, run["units"], now)
    cooldown.granted(record, now)
    if more and seat["out"][-1]["run"] == run["id"]:
        seat["out"][-1]["count"] += 1
    else:
        seat["g"] += 1
        seat["out"].append(
            {
                "g": seat["g"],
                "run": run["id"],
                "count": 1,
                "first": call_id,
                "at": now,
                "late": state.late_now(record),
            }
        )
    record["virtual"] = max(record["virtual"], run["tag"])
    run["tag"] += cost(run["units"], terms)
    run["count"] -= 1
