"""Decides whether calls may start now, and if not, what they wait for and when to ask again.

`decide` works on the record that it is given and leaves it as it is to be stored. One store has the same rules in
another language, and a test drives both with the same steps: change them together, and keep to whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from forebay.model.limit_record import Answer, Ask, Call, Log, Record, Run, Seat, Terms, Wait, Wish
from forebay.rules import cooldown
from forebay.rules import window_log as logs
from forebay.rules.cooldown import SECOND

JUMP = 2 * SECOND
POLL = 5 * SECOND
GRACE = 50
SCALE = 1000
FOREVER = 1 << 45
IN_FLIGHT = "in_flight"
PAUSED = "paused"
RELEARNING = "relearning"
RAMP = "ramp"
TOO_LARGE = "too_large"


def new_record(now: int, version: int = 0) -> Record:
    """`version`: the highest that its maker has seen of a limit by this name, which the store then has forgotten."""
    return {
        "v": version,
        "gen": 1,
        "offset": 0,
        "last": now,
        "layers": [],
        "eras": [],
        "tv": 0,
        "logs": {},
        "seats": {},
        "paused": -1,
        "note": "",
        "cool": cooldown.none(),
        "hold": 0,
        "virtual": 0,
        "tick": 0,
        "mean": 0,
    }


def decide(record: Record, ask: Ask, raw: int) -> Answer:
    """Apply what a session says and asks for; `raw` is the store's own clock."""
    now = logical(record, raw, seen=ask["seen"], elapsed=ask["elapsed"])
    if not record["eras"]:
        return unknown(now)
    terms = terms_at(record, now)
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
    for window in _counted(record):
        logs.expire(_log(record, window.name), now, window.wide)
    if ask["n"] > 0:
        seat["n"] = ask["n"]
        for hint in ask["hints"]:
            cooldown.throttle(record, terms, hint, now)
        _finish(record, seat, ask, terms, now)
        for call_id in ask["starts"]:
            if _restamp(record, seat, call_id, terms, now):
                restamped += [call_id]
        _line_up(record, seat, ask["runs"], terms)
    _prune(record, terms, now)
    wakes = _serve(record, ask["sid"], terms, now)
    answer = _answer(record, seat, now)
    answer["lost"] = lost
    answer["starts"] = [{"id": call_id, "at": now} for call_id in restamped]
    answer["wakes"] = wakes
    answer["others"] = sum(
        run["count"] for sid, other in record["seats"].items() if sid != ask["sid"] for run in other["runs"]
    )
    answer["waits"] = _waits(record, ask["sid"], terms, now)
    answer["used"] = in_flight(record)
    answer["sums"] = [_log(record, logs.name(bound))["sum"] for bound in terms["windows"]]
    answer["level"] = record["cool"]["level"]
    if ask["tv"] != record["tv"]:
        answer["terms"] = [terms]
    return answer


def unknown(now: int) -> Answer:
    """What a store says that has no such limit."""
    return _answer(new_record(now), _new_seat(), now, status="unknown")


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
    }


def _new_seat() -> Seat:
    return {"until": 0, "n": 0, "g": 0, "next": 1, "label": "", "calls": [], "runs": [], "out": []}


def logical(record: Record, raw: int, *, seen: int = -1, elapsed: int = 0) -> int:
    """The store's time without its jumps: whoever asks knows how long ago it was told which instant.

    It is believed about more time than the store's clock shows only if that was set back: else one that counts too
    much, because its request was slow or its clock is fast, would open the windows of all.
    """
    now = raw + record["offset"]
    last = record["last"]
    told = seen + elapsed if seen >= 0 else -1
    true = now
    if now < last - JUMP:
        true = max(told, last)
    elif last - JUMP <= told < now - JUMP:
        true = told
    record["offset"] += true - now
    now = max(true, last)
    record["last"] = now
    return now


def terms_at(record: Record, now: int) -> Terms:
    while len(record["eras"]) > 1 and 0 <= record["eras"][0]["until"] <= now:
        del record["eras"][0]
        record["tv"] += 1
    return record["eras"][0]["terms"]


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
        hold_back(record, terms, now)
        # Some of these calls were given back since, and nobody would do it again; until then all of them are over.
        for other in record["seats"].values():
            for call in other["calls"]:
                record["hold"] = max(record["hold"], call["until"])
            other["calls"] = []
            other["out"] = []


def hold_back(record: Record, terms: Terms, now: int) -> None:
    wait = terms["call"] + terms["start"] + terms["transit"]
    for _, wide in _widths(terms):
        wait = max(wait, wide)
    record["hold"] = max(record["hold"], now + wait)


def _widths(terms: Terms) -> list[tuple[str, int]]:
    return [(logs.name(bound), logs.width(bound, terms)) for bound in terms["windows"]]


def _log(record: Record, name: str) -> Log:
    return record["logs"].setdefault(name, {"sum": 0, "items": []})


class _Counted(NamedTuple):
    name: str
    unit: str
    wide: int


def _counted(record: Record) -> list[_Counted]:
    """The windows in force and those of terms to come, which must know by then what went before."""
    found: dict[str, _Counted] = {}
    for era in record["eras"]:
        for bound in era["terms"]["windows"]:
            name = logs.name(bound)
            if name not in found:
                found[name] = _Counted(name, bound["unit"], logs.width(bound, era["terms"]))
    return list(found.values())


def _count(record: Record, units: dict[str, int], now: int) -> None:
    for window in _counted(record):
        logs.add(_log(record, window.name), now, units.get(window.unit, 0), window.wide)


def _uncount(record: Record, units: dict[str, int], granted_at: int, now: int) -> None:
    for window in _counted(record):
        # What does not count any more has nothing to take back: all that is there is of others.
        if granted_at + window.wide > now:
            logs.take_back(_log(record, window.name), granted_at, units.get(window.unit, 0), window.wide)


def _finish(record: Record, seat: Seat, ask: Ask, terms: Terms, now: int) -> None:
    for done in ask["done"]:
        call = _taken(seat, done["id"])
        if call is None:
            continue  # said before, or forgotten
        if done["outcome"] == "unsent":
            _uncount(record, call["units"], call["at"], now)
            continue
        cooldown.ended(record, terms, done["outcome"], call["at"], now)
        took = now - call["at"]
        record["mean"] = took if record["mean"] == 0 else record["mean"] + (took - record["mean"]) // 8
        for unit, used in sorted(done["units"].items()):
            more = used - call["units"].get(unit, 0)
            if more > 0:
                _count(record, {unit: more}, now)
            elif more < 0:
                _uncount(record, {unit: -more}, call["at"], now)


def _taken(seat: Seat, call_id: int) -> Call | None:
    for index, call in enumerate(seat["calls"]):
        if call["id"] == call_id:
            return seat["calls"].pop(index)
    return None


def _restamp(record: Record, seat: Seat, call_id: int, terms: Terms, now: int) -> bool:
    """Let a call that starts late count from now on, which is always admissible while it still counts at all."""
    call = next((each for each in seat["calls"] if each["id"] == call_id), None)
    if call is None or gate(record, terms, now)[1] > now:
        return False
    for _, wide in _widths(terms):
        if call["at"] + wide <= now:
            return False
    if call["at"] < now:
        _uncount(record, call["units"], call["at"], now)
        _count(record, call["units"], now)
    call["at"] = now
    call["until"] = now + terms["start"] + terms["transit"] + terms["call"]
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
        return record["virtual"] - FOREVER
    tag = record["virtual"]
    for other in record["seats"].values():
        if other is not seat:
            for run in other["runs"]:
                tag = max(tag, _behind(run, wish["key"], terms))
    for run in seat["runs"]:
        tag = max(tag, _behind(run, wish["key"], terms))
    return tag


def _behind(run: Run, key: str, terms: Terms) -> int:
    return run["tag"] + run["count"] * cost(run["units"], terms) if run["key"] == key else -FOREVER


def _prune(record: Record, terms: Terms, now: int) -> None:
    """Drop what sessions hold that have ended, as soon as the provider cannot work on it any more."""
    for sid in list(record["seats"]):
        seat = record["seats"][sid]
        if seat["until"] > now:
            continue
        seat["runs"] = []
        seat["out"] = []
        seat["calls"] = [] if terms["stops"] else [call for call in seat["calls"] if call["until"] > now]
        if not seat["calls"]:
            del record["seats"][sid]


def tidy(record: Record, terms: Terms, now: int) -> None:
    """Drop what does not count any more."""
    for window in _counted(record):
        logs.expire(_log(record, window.name), now, window.wide)
    _prune(record, terms, now)


def in_flight(record: Record) -> int:
    return sum(len(seat["calls"]) for seat in record["seats"].values())


def gate(record: Record, terms: Terms, now: int) -> tuple[str, int]:
    """What keeps everybody out, and until when; the end is not after `now` where nothing does."""
    cool = record["cool"]
    if record["paused"] == 0 or record["paused"] > now:
        return PAUSED, record["paused"] or FOREVER
    if terms["in_flight"] == 0:
        return PAUSED, FOREVER
    for bound in terms["windows"]:
        if bound["n"] == 0:
            return PAUSED, FOREVER
    if cool["until"] > now and cool["until"] >= record["hold"]:
        return cool["kind"], cool["until"]
    if record["hold"] > now:
        return RELEARNING, record["hold"]
    return "", 0


class _Place(NamedTuple):
    sid: str
    run: Run


class _Head(NamedTuple):
    """What the first that does not fit wants, and when it will."""

    units: dict[str, int]
    starts_at: int


def line(record: Record) -> list[_Place]:
    """All runs in the order in which they are served."""
    return sorted((_Place(sid, run) for sid, seat in record["seats"].items() for run in seat["runs"]), key=_order)


def _order(place: _Place) -> tuple[int, int]:
    return place.run["tag"], place.run["tick"]


def _serve(record: Record, sid: str, terms: Terms, now: int) -> list[str]:
    """Grant from the head of the line as long as it fits; who is behind may pass only if the head starts no later.

    A session that has not confirmed its last grants gets no more, unless it is the one that asks.
    """
    if gate(record, terms, now)[1] > now:
        return []
    silent = {name for name, seat in record["seats"].items() if seat["out"] and name != sid}
    waiting = [place for place in line(record) if place.sid not in silent]
    used = in_flight(record)
    waiting = [place for place in waiting if not too_large(terms, place.run["units"])]
    head: _Head | None = None
    woken: list[str] = []
    while waiting:
        place = waiting[0]
        run = place.run
        if not _fits(record, terms, run, used, now) or (head and not _spares(record, terms, run, head, used)):
            if head is None:
                head = _Head(run["units"], now + _windows_free_in(record, terms, run["units"], now))
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


def _fall_in(waiting: list[_Place]) -> None:
    """The first has moved back: all others are in order."""
    at = 0
    while at + 1 < len(waiting) and _order(waiting[at + 1]) < _order(waiting[at]):
        waiting[at], waiting[at + 1] = waiting[at + 1], waiting[at]
        at += 1


def too_large(terms: Terms, units: dict[str, int]) -> bool:
    """Whether it could never be granted; such a one holds up nobody."""
    return any(0 < bound["n"] < units.get(bound["unit"], 0) for bound in terms["windows"])


def _fits(record: Record, terms: Terms, run: Run, used: int, now: int) -> bool:
    if 0 <= terms["in_flight"] <= used or cooldown.room(record, terms, now) <= 0:
        return False
    for bound in terms["windows"]:
        if _log(record, logs.name(bound))["sum"] + run["units"].get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _spares(record: Record, terms: Terms, run: Run, head: _Head, used: int) -> bool:
    """Whether the head can still start when it could, with this one before it."""
    if 0 <= terms["in_flight"] < used + 2 or record["cool"]["ramp"] != 0:
        return False
    for bound in terms["windows"]:
        log = _log(record, logs.name(bound))
        then = logs.used_at(log, head.starts_at, logs.width(bound, terms))
        if then + run["units"].get(bound["unit"], 0) + head.units.get(bound["unit"], 0) > bound["n"]:
            return False
    return True


def _windows_free_in(record: Record, terms: Terms, units: dict[str, int], now: int) -> int:
    free_in = 0
    for bound in terms["windows"]:
        log = _log(record, logs.name(bound))
        need = units.get(bound["unit"], 0)
        if need > 0:
            free_in = max(free_in, logs.free_in(log, now, logs.width(bound, terms), bound["n"], need))
    return free_in


def _grant(record: Record, place: _Place, terms: Terms, now: int, *, more: bool) -> None:
    """`more`: its session was given something in this same step, which nobody has been told yet."""
    seat, run = record["seats"][place.sid], place.run
    call_id = seat["next"]
    seat["next"] += 1
    until = now + terms["start"] + terms["transit"] + terms["call"]
    seat["calls"].append({"id": call_id, "at": now, "until": until, "units": run["units"], "label": run["label"]})
    _count(record, run["units"], now)
    cooldown.granted(record, now)
    if more and seat["out"][-1]["run"] == run["id"]:
        seat["out"][-1]["count"] += 1
    else:
        seat["g"] += 1
        seat["out"].append({"g": seat["g"], "run": run["id"], "count": 1, "first": call_id, "at": now})
    record["virtual"] = max(record["virtual"], run["tag"])
    run["tag"] += cost(run["units"], terms)
    run["count"] -= 1


def _waits(record: Record, sid: str, terms: Terms, now: int) -> list[Wait]:
    """For the first of a session's callers that was not let in."""
    count = 0
    units: dict[str, int] = {}
    for place in line(record):
        run = place.run
        if place.sid == sid:
            eta, by = forecast(record, terms, Ahead(count, units), run["units"], now)
            again = _ask_again_in(record, terms, run["units"], now)
            if count > 0:
                # Others are before it, and whoever lets them in lets it in, too: it asks only in case nobody did.
                again = min(POLL, max(again, eta) + GRACE)
            return [{"again": again, "eta": eta, "ahead": count, "by": by}]
        if too_large(terms, run["units"]):
            continue
        count += run["count"]
        for unit, each in run["units"].items():
            units[unit] = units.get(unit, 0) + each * run["count"]
    return []


class Ahead(NamedTuple):
    """How many calls are before one, with how many units."""

    calls: int
    units: dict[str, int]


def all_ahead(record: Record, terms: Terms) -> Ahead:
    """What a newcomer has before it."""
    calls = 0
    units: dict[str, int] = {}
    for place in line(record):
        if too_large(terms, place.run["units"]):
            continue
        calls += place.run["count"]
        for unit, each in place.run["units"].items():
            units[unit] = units.get(unit, 0) + each * place.run["count"]
    return Ahead(calls, units)


def forecast(record: Record, terms: Terms, ahead: Ahead, units: dict[str, int], now: int) -> tuple[int, list[str]]:
    """When a call may start that has so much before it, and what it waits for: exact for windows, by mean for calls."""
    if too_large(terms, units):
        return FOREVER, [TOO_LARGE]
    by: list[str] = []
    eta = 0
    reason, until = gate(record, terms, now)
    if until > now:
        by.append(reason)
        eta = until - now
    elif cooldown.room(record, terms, now) <= 0:
        by.append(RAMP)
        eta = cooldown.next_room_at(record, now) - now
    if terms["in_flight"] > 0:
        releases = in_flight(record) + ahead.calls + 1 - terms["in_flight"]
        if releases > 0:
            by.append(IN_FLIGHT)
            mean = record["mean"] if record["mean"] > 0 else terms["call"]
            eta = max(eta, mean * releases // terms["in_flight"])
    for bound in terms["windows"]:
        need = ahead.units.get(bound["unit"], 0) + units.get(bound["unit"], 0)
        if need > 0 and bound["n"] > 0:
            log = _log(record, logs.name(bound))
            free_in = logs.free_in(log, now, logs.width(bound, terms), bound["n"], need)
            if free_in > 0:
                by.append(logs.name(bound))
                eta = max(eta, free_in)
    return min(eta, FOREVER), by


def _ask_again_in(record: Record, terms: Terms, units: dict[str, int], now: int) -> int:
    """When the head of the line is let in without anybody's doing: its window opens, or somebody's session ends."""
    again = POLL
    _, until = gate(record, terms, now)
    if until > now:
        again = min(again, until - now)
    elif cooldown.room(record, terms, now) <= 0:
        again = min(again, cooldown.next_room_at(record, now) - now)
    else:
        free_in = _windows_free_in(record, terms, units, now)
        if free_in > 0:
            again = min(again, free_in)
        if 0 <= terms["in_flight"] <= in_flight(record):
            again = min(again, _next_loss_at(record, terms, now) - now)
    return max(1, again)


def _next_loss_at(record: Record, terms: Terms, now: int) -> int:
    """When a session that says nothing any more would give something back."""
    soonest = now + POLL
    for seat in record["seats"].values():
        for call in seat["calls"]:
            ends_at = seat["until"] if terms["stops"] else max(seat["until"], call["until"])
            soonest = min(soonest, max(ends_at, now + 1))
    return soonest
