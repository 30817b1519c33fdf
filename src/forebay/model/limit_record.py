"""What a limit store keeps of one limit, what a process asks of it and what it hears: plain data, whole numbers.

Instants and durations are milliseconds. All of it is JSON, because one store decides in another language; that is
also why nothing is ever null, and why an absent number is -1 and an absent text is empty.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Bound(TypedDict):
    """One window, as it is enforced."""

    n: int
    per: int
    unit: str


class Terms(TypedDict):
    """A limit's definition as the rules need it. `in_flight` is -1 where nothing bounds it.

    `share`: how many processes share the limit while the store is gone, 0 where nobody said. Records of older programs
    have none.
    """

    in_flight: int
    windows: list[Bound]
    call: int
    lease: int
    beat: int
    start: int
    transit: int
    stops: int
    backoff: list[int]
    longest: int
    breaker: int
    down: str
    share: int


class Era(TypedDict):
    """Terms that hold until an instant; -1 is for good."""

    until: int
    terms: Terms


class Layer(TypedDict):
    """Some fields of a limit, as one source gave them; `until` is -1 for good."""

    name: str
    values: dict[str, object]
    until: int
    at: int
    who: str
    note: str


class Log(TypedDict):
    """Grants of one window, oldest first: instant, units, instant, units, …; `sum` is of all the units."""

    sum: int
    items: list[int]


class Call(TypedDict):
    """A slot that was granted and has not been given back; its provider may work on it until `until`.

    `key` is that of the caller, where it gave one; calls that older programs granted have none.
    """

    id: int
    at: int
    until: int
    units: dict[str, int]
    label: str
    key: NotRequired[str]


class Run(TypedDict):
    """Callers of one process that came together and want the same; `tag` is their place in line, `tick` its order."""

    id: int
    key: str
    count: int
    units: dict[str, int]
    label: str
    tag: int
    tick: int


class Grant(TypedDict):
    """So many calls for a run, numbered from `first`; the process has heard of it when it says so by `g`.

    `late` is how old the grant may be when a call starts. Grants that older programs made have none.
    """

    g: int
    run: int
    count: int
    first: int
    at: int
    late: NotRequired[int]


class Tail(TypedDict):
    """How many runs of a key are in line, and the place behind the last of them."""

    tag: int
    runs: int


class Seat(TypedDict):
    """One session: what it holds, what it waits for, and what it was given and has not confirmed yet.

    `due`: when the session has to be looked at: at its end, and after that whenever one of its calls is over.
    """

    until: int
    due: int
    n: int
    g: int
    next: int
    label: str
    calls: list[Call]
    runs: list[Run]
    out: list[Grant]


class Cool(TypedDict):
    """A cool-down; `kind` is empty where there never was one. `ramp`: 0 for none, -1 before its probe, else its start.

    `second` and `count`: how many were granted in which second of the ramp. `fails`: consecutive failures.
    """

    kind: str
    until: int
    began: int
    level: int
    ramp: int
    second: int
    count: int
    fails: int


class Report(TypedDict):
    """A tenant said at `at` that the provider refused its call; its own calls wait until `until`, if that is later.

    `fails`: how many of its calls failed in a row.
    """

    at: int
    until: int
    fails: NotRequired[int]


class Rest(TypedDict):
    """What a record that a step works on leaves out: sessions of whom the step needs to know only these numbers.

    `used`, `cut_off`: their calls, and those of them that were cut off; `latest`: when the last of their calls is over.
    `sessions`: those that are alive; `waiting`: their callers, and `runs` of how many runs these are. `before`: how
    many of these runs stand before the asker's first one. `horizon`: the tag and the tick of the last place before
    which no run is missing that may be served, empty where all of those are there.
    """

    used: int
    cut_off: int
    latest: int
    sessions: int
    waiting: int
    runs: int
    before: int
    horizon: list[int]


class Record(TypedDict):
    """All that a store knows of one limit. `v` rises with every write, `gen` whenever the store has forgotten some.

    `paused` is -1 for not, 0 for good, else until when; `paused_by` says who did it. `reports` are those of tenants by
    their names (`rules/reports.py`). `asked` are callers that got no slot and stand in no line, and until when each
    counts as one who waits. `hold`: nothing is granted before. `virtual` is the place in
    line that was served last, `tails` are of the keys that callers wait under, `mean` is how long calls take. `offset`
    makes the store's clock one that does not jump. `rest` is in records of which only a part was read.
    """

    v: int
    gen: int
    offset: int
    last: int
    layers: list[Layer]
    eras: list[Era]
    tv: int
    logs: dict[str, Log]
    seats: dict[str, Seat]
    tails: dict[str, Tail]
    rest: NotRequired[Rest]
    paused: int
    paused_by: NotRequired[str]
    reports: NotRequired[dict[str, Report]]
    asked: NotRequired[dict[str, int]]
    note: str
    cool: Cool
    hold: int
    virtual: int
    tick: int
    mean: int


class Done(TypedDict):
    """A call that has ended. `outcome`: ok, failed, unsent, or empty where nobody knows; `units`: what it took.

    An unreached call is both unsent and failed. After cut_off and timed_out the provider may still work on the call,
    so it counts until its `until`; timed_out is also a failure.
    """

    id: int
    outcome: str
    units: dict[str, int]


class Hint(TypedDict):
    """A provider said "not now" to a call that was granted at `at`. `wait` is -1 where it did not say how long."""

    kind: str
    at: int
    wait: int
    jitter: int


class Wish(TypedDict):
    """A run as its process declares it, with what it has confirmed; `front` is 1 for those that had a slot already."""

    id: int
    key: str
    count: int
    units: dict[str, int]
    label: str
    front: int


class Ask(TypedDict):
    """One request of a session. The whole of its line is declared each time.

    With `n` 0 it leaves the line as it is: it is a heartbeat, or gives back what is in `done` and `hints`.
    `seen` and `elapsed` are the last instant that it was told and the time since then by its own clock; `version` the
    highest that it has seen, `acked` its last `n` that was answered; `sure` is 1 when its session cannot have ended
    yet; `tv` are the terms that it knows.
    """

    sid: str
    n: int
    heard: int
    next: int
    label: str
    seen: int
    elapsed: int
    version: int
    acked: int
    sure: int
    tv: int
    done: list[Done]
    hints: list[Hint]
    starts: list[int]
    runs: list[Wish]


class Restamp(TypedDict):
    """A call that counts from `at` on, and may start until it is `late` old."""

    id: int
    at: int
    late: int


class Wait(TypedDict):
    """Why the first of the session's callers waits: when to ask again, when it may start, who is before it."""

    again: int
    eta: int
    ahead: int
    by: list[str]


class Answer(TypedDict):
    """`status`: ok, unknown (no such limit), or late (a request that a newer one has overtaken).

    `grants`: all that was not confirmed. `waits` has one entry, or none when nobody of the session waits. `terms` has
    one entry when the process knows others. `wakes`: sessions that were given something just now. `used` and `sums`:
    calls in progress, and what each window counts; `level`: of the cool-down; `cut_off`: how many of the calls in
    progress were cut off; `offset`: of the store's clock, which instants of another offset cannot be compared with;
    `shut`: for how long a pause, a cool-down or a loss keeps everybody out; `began`: when the last cool-down did.
    `more`: 1 where the step left something undone, so that asking again at once goes on with it.
    """

    status: str
    now: int
    v: int
    gen: int
    tv: int
    lost: int
    grants: list[Grant]
    starts: list[Restamp]
    waits: list[Wait]
    terms: list[Terms]
    wakes: list[str]
    others: int
    sessions: int
    used: int
    sums: list[int]
    level: int
    cut_off: int
    offset: int
    shut: int
    began: int
    more: int
