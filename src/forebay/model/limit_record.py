"""What a limit store keeps of one limit, what a process asks of it and what it hears: plain data, whole numbers.

All of it is JSON, because one store decides in another language; that is also why nothing is ever null, and why an
absent number is -1 and an absent text is empty. Instants are milliseconds of the store's clock: their names end in
`_at` or `_until`. Durations are milliseconds: their names end in `_ms`. Counts end in `_count`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class WindowBound(TypedDict):
    """One window, as it is enforced: at most `n` units in any `per_ms`."""

    n: int
    per_ms: int
    unit: str


class UnitBound(TypedDict):
    """At most `n` of a unit in all calls in progress."""

    n: int
    unit: str


class Terms(TypedDict):
    """A limit's definition as the rules need it. `in_flight` bounds calls in progress; -1 where nothing bounds them.

    `in_flight_units` bounds other units of the calls in progress.
    `share_processes`: how many processes share the limit while the store is gone, 0 where nobody said.
    """

    in_flight: int
    in_flight_units: list[UnitBound]
    windows: list[WindowBound]
    call_timeout_ms: int
    lease_ms: int
    heartbeat_ms: int
    start_within_ms: int
    transit_ms: int
    stops_on_disconnect: int
    cooldown_steps_ms: list[int]
    max_cooldown_ms: int
    breaker_after: int
    when_store_down: str
    share_processes: int


class Era(TypedDict):
    """Terms that hold until an instant; -1 is for good."""

    ends_at: int
    terms: Terms


class Layer(TypedDict):
    """Some fields of a limit, as one source gave them; `ends_at` is -1 for good."""

    name: str
    values: dict[str, object]
    ends_at: int
    set_at: int
    set_by: str
    note: str


class WindowLog(TypedDict):
    """Grants of one window, oldest first: instant, units, instant, units, …; `sum` is of all the units."""

    sum: int
    entries: list[int]


class GrantedCall(TypedDict):
    """A slot that was granted and has not been given back; its provider may work on it until `call_until`.

    `key` is that of the caller, where it gave one; calls that older programs granted have none. `counted_at` is the
    instant at which windows count the call.
    """

    id: int
    granted_at: int
    counted_at: int
    call_until: int
    units: dict[str, int]
    label: str
    key: NotRequired[str]


class WaitingRun(TypedDict):
    """Callers of one process that came together and want the same.

    `virtual_start` is their place in line, in virtual time; `arrival_number` orders runs of the same place.
    """

    id: int
    key: str
    caller_count: int
    units: dict[str, int]
    label: str
    virtual_start: int
    arrival_number: int


class Grant(TypedDict):
    """So many calls for a run, numbered from `first_call_id`.

    The process has heard of the grant when it confirms the grant's `number`. `max_age_ms` is how old the grant may be
    when a call starts. Grants that older programs made have none.
    """

    number: int
    run_id: int
    call_count: int
    first_call_id: int
    granted_at: int
    max_age_ms: NotRequired[int]


class Tail(TypedDict):
    """How many runs of a key are in line, and the place behind the last of them."""

    virtual_finish: int
    run_count: int


class KeptPlace(TypedDict):
    """A place in line whose owner asks, goes away and comes back; `name` is what the owner calls the place.

    `told_at`: the instant that the owner was told to come back at; `is_awaited`: 1 around that instant, when a slot
    that becomes free is kept for the place. `missed_count`: how many slots were kept in vain. `virtual_start` and
    `arrival_number` are those of its run, also while it has none. `holder` is the token of the ask that was granted,
    and empty while the place waits.
    """

    name: str
    told_at: int
    is_awaited: int
    missed_count: int
    virtual_start: int
    arrival_number: int
    holder: str


class LimitSession(TypedDict):
    """One session: what it holds, what it waits for, and what it was given and has not confirmed yet.

    `due_at`: when the session has to be looked at: at its end, and after that whenever one of its calls is over; of a
    kept place that waits, so much later as `rules/kept_places.py` says. `place` is in the session of a kept place.
    `request_number` and `grant_number` are those of its last request and of its last grant.
    """

    ends_at: int
    due_at: int
    request_number: int
    grant_number: int
    next_call_id: int
    label: str
    calls: list[GrantedCall]
    runs: list[WaitingRun]
    unconfirmed: list[Grant]
    place: NotRequired[KeptPlace]


class Cooldown(TypedDict):
    """A cool-down; `kind` is empty where there never was one.

    `ramp_began_at`: 0 for no ramp, -1 before its probe. `ramp_second` and `ramp_grant_count`: how many were granted in
    which second of the ramp. `failure_count`: consecutive failures.
    """

    kind: str
    ends_at: int
    began_at: int
    level: int
    ramp_began_at: int
    ramp_second: int
    ramp_grant_count: int
    failure_count: int


class TenantReport(TypedDict):
    """A tenant reported that the provider refused its call; its own calls wait until `waits_until`, if that is later.

    `failure_count`: how many of its calls failed in a row.
    """

    reported_at: int
    waits_until: int
    failure_count: NotRequired[int]


class Rest(TypedDict):
    """What a record that a step works on leaves out: sessions of whom the step needs to know only these numbers.

    `in_flight_count`, `cut_off_count`: their calls, and those of them that were cut off; `in_flight_sums`: the units of
    these calls; `latest_call_until`: when the last of them is over. `session_count`: those that are alive;
    `caller_count`: their waiting callers, and `run_count` of how many runs these are. `before_count`: how many of these
    runs stand before the asker's first one. `horizon`: the virtual start and the arrival number of the last place
    before which no run is missing that may be served, empty where all of those are there.
    """

    in_flight_count: int
    in_flight_sums: dict[str, int]
    cut_off_count: int
    latest_call_until: int
    session_count: int
    caller_count: int
    run_count: int
    before_count: int
    horizon: list[int]


class Record(TypedDict):
    """All that a store knows of one limit.

    `version` rises with every write, `generation` whenever the store has forgotten some. `clock_offset_ms` makes the
    store's clock one that does not jump; `last_step_at` is its instant of the last step. `paused_until` is -1 for not,
    0 for good; `paused_by` and `pause_note` say who paused the limit, and why. `reports` are those of tenants by their
    names (`rules/reports.py`). `refused_callers` are callers that got no slot and stand in no line, and until when each
    counts as waiting. `held_back_until`: nothing is granted before. `virtual_time` is the place in line that was served
    last, `arrival_count` the number of the run that came last, `tails` are of the keys that callers wait under.
    `mean_call_ms` is how long calls take. `freshness_ms` is how old new grants may be when their calls start, where
    a slow store needs more than the terms say, until `freshness_until`; `last_counted_at` is the newest instant at
    which windows count a call. `rest` is in records of which only a part was read.
    """

    version: int
    generation: int
    clock_offset_ms: int
    last_step_at: int
    layers: list[Layer]
    eras: list[Era]
    terms_version: int
    window_logs: dict[str, WindowLog]
    sessions: dict[str, LimitSession]
    tails: dict[str, Tail]
    rest: NotRequired[Rest]
    paused_until: int
    paused_by: NotRequired[str]
    reports: NotRequired[dict[str, TenantReport]]
    refused_callers: NotRequired[dict[str, int]]
    pause_note: str
    cooldown: Cooldown
    held_back_until: int
    virtual_time: int
    arrival_count: int
    mean_call_ms: int
    freshness_ms: int
    freshness_until: int
    last_counted_at: int


class EndedCall(TypedDict):
    """A call that has ended. `outcome`: ok, failed, unsent, or empty where nobody knows; `units`: what it took.

    An unreached call is both unsent and failed. After cut_off and timed_out the provider may still work on the call,
    so it counts until its `call_until`; timed_out is also a failure.
    """

    call_id: int
    outcome: str
    units: dict[str, int]


class ProviderRefusal(TypedDict):
    """A provider refused a call with "not now"; `granted_at` is of that call.

    `wait_ms` is -1 where the provider did not say how long. `jitter_permille` lengthens the wait.
    """

    kind: str
    granted_at: int
    wait_ms: int
    jitter_permille: int


class DeclaredRun(TypedDict):
    """A run as its process declares it; `front` is 1 for those that had a slot already.

    `in_hand_count`: how many more slots the process wants, for calls of the same kind that it expects to make next.
    """

    id: int
    key: str
    caller_count: int
    units: dict[str, int]
    label: str
    front: int
    in_hand_count: NotRequired[int]


class Ask(TypedDict):
    """One request of a session. The whole of its line is declared each time.

    With `request_number` 0 it leaves the line as it is: it is a heartbeat, or gives back `ended_calls` and `refusals`.
    `confirmed_grant_number`: the last grant that the session has heard of. `seen_at` and `elapsed_ms` are the last
    instant that it received and the time since then by its own clock; `seen_version` is the highest version that it has
    seen, `answered_request_number` its last request that was answered; `is_sure` is 1 when its session cannot have
    ended yet; `terms_version` is of the terms that it knows. `restamp_call_ids` are calls that start late.
    `grant_delay_ms` is how old grants were at most when the session heard of them, since its last request.

    With `keep_ms` it asks for the kept place `place_name`, whose session this is: the place is kept for so long after
    it. `holder` is there in whatever is said in the session of a kept place.
    """

    session_id: str
    request_number: int
    confirmed_grant_number: int
    next_call_id: int
    label: str
    seen_at: int
    elapsed_ms: int
    seen_version: int
    answered_request_number: int
    is_sure: int
    terms_version: int
    grant_delay_ms: int
    ended_calls: list[EndedCall]
    refusals: list[ProviderRefusal]
    restamp_call_ids: list[int]
    runs: list[DeclaredRun]
    keep_ms: NotRequired[int]
    holder: NotRequired[str]
    place_name: NotRequired[str]


class Restamp(TypedDict):
    """A call that counts from `granted_at` on, and may start until it is `max_age_ms` old."""

    call_id: int
    granted_at: int
    max_age_ms: int


class Wait(TypedDict):
    """Why the first of the session's callers waits: when to ask again, when it may start, how many are before it."""

    ask_again_in_ms: int
    eta_ms: int
    ahead_count: int
    blocked_by: list[str]


class Answer(TypedDict):
    """What a store answers.

    `status`: ok, unknown (no such limit), late (a request that a newer one has overtaken, or of somebody who does not
    hold the slot of a kept place), or held (somebody else holds the slot of the kept place).
    `session_lost`: 1 where the store did not know the session. `grants`: all that was not confirmed. `waits` has one
    entry, or none when nobody of the session waits. `terms` has one entry when the process knows others.
    `woken_session_ids`: sessions that were given something just now. `other_caller_count`: callers of other sessions
    that wait. `session_count`: sessions that are alive. `in_flight_count`, `in_flight_sums` and `window_sums`: calls in
    progress, how much of each bounded unit these take, and what each window counts; `cut_off_count`: how many of the
    calls in progress were cut off. `clock_offset_ms`: of the store's clock; instants of another offset cannot be
    compared with. `shut_for_ms`: for how long a pause, a cool-down or a loss keeps everybody out; `cooldown_level` and
    `cooldown_began_at`: of the last cool-down. `has_more`: 1 where the step left something undone, so that asking again
    at once continues with it.
    """

    status: str
    now: int
    version: int
    generation: int
    terms_version: int
    session_lost: int
    grants: list[Grant]
    restamps: list[Restamp]
    waits: list[Wait]
    terms: list[Terms]
    woken_session_ids: list[str]
    other_caller_count: int
    session_count: int
    in_flight_count: int
    in_flight_sums: list[int]
    window_sums: list[int]
    cooldown_level: int
    cut_off_count: int
    clock_offset_ms: int
    shut_for_ms: int
    cooldown_began_at: int
    has_more: int
