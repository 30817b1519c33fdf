"""The commands for limits: list, show, set, pause, resume, clear, reset, presets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from forebay.cli import output
from forebay.cli.acting import confirmed
from forebay.cli.opening import lacks_limits, opened_limits, settings_of, who
from forebay.cli.options import All, Duration, LimitReading, Reading, Yes
from forebay.errors import BadInput, StoreError

if TYPE_CHECKING:
    from forebay.limits import Limiter, Usage
    from forebay.model.lane import Lane
    from forebay.rules.standing import Standing

_USUAL = LimitReading()
_USUAL_READING = Reading()
Layers: TypeAlias = Literal["override", "operator", "file", "preset"]
Name = Annotated[str, Parameter(name="NAME", help="The name of a limit.")]
Note = Annotated[str, Parameter(show_default=False, help="Why; it is shown with the limit.")]


def listing(*, common: LimitReading = _USUAL) -> None:
    found: list[Usage] = []
    if not lacks_limits(common):
        with opened_limits(common) as limiter:
            found = limiter.usages()
    if common.output != "table":
        output.write([each.plain() for each in found], common.output)
    elif found:
        from forebay.cli.limit_views import table

        table(found)
    else:
        output.note("There are none.")


def show(name: Name, /, *, common: LimitReading = _USUAL) -> None:
    """For each field, the layer that it comes from: preset, code, file, operator, or an override and its end."""
    with opened_limits(common) as limiter:
        usage = limiter.usage(name)
        lanes = _lanes(limiter, name, common)
    if common.output != "table":
        from forebay.app.plain import plain_lane

        waiting = None if lanes is None else [plain_lane(lane, standing) for lane, standing in lanes]
        output.write([usage.plain() | {"lanes": waiting}], common.output, one=True)
        return
    from forebay.cli.limit_views import show as show_usage

    show_usage(usage, lanes or ())


def _lanes(limiter: Limiter, name: str, common: LimitReading) -> list[tuple[Lane, Standing]] | None:
    """Of the ledger, if there is one that answers: limits are used without one, too."""
    import time

    from forebay.app.explain import Explainer
    from forebay.engine.registry import Registry
    from forebay.model.access import Access
    from forebay.stores.address import open_ledger

    try:
        settings = settings_of(common)
        with open_ledger(settings.ledger, environment=settings.env, access=Access.AS_IS) as ledger:
            return Explainer(ledger, lambda: limiter, Registry(), now=time.time()).lanes(name)
    except StoreError:
        return None


def change(
    name: Name,
    /,
    *,
    in_flight: Annotated[
        str | None,
        Parameter(help="Calls at once, such as 400, or with other units: 400,5000:pages. 0 pauses, none lifts it."),
    ] = None,
    window: Annotated[
        list[str] | None,
        Parameter(negative="", help="N/SECONDS or N/SECONDS:UNIT, such as 190/60; may be given again; none lifts all."),
    ] = None,
    preset: Annotated[str | None, Parameter(help="The fields of a preset; those given here win.")] = None,
    call_timeout: Annotated[str | None, Parameter(help="The longest that a call may take.")] = None,
    max_cooldown: Annotated[str | None, Parameter(help="The longest that a cool-down may last.")] = None,
    cooldown: Annotated[str | None, Parameter(help="Seconds of each cool-down step, such as 2,4,8,16,30.")] = None,
    breaker_after: Annotated[int | None, Parameter(help="Failures in a row that pause it; 0 for never.")] = None,
    lease: Annotated[float | None, Parameter(help="Seconds after which a silent process counts as ended.")] = None,
    heartbeat: Annotated[
        float | None, Parameter(help="Seconds between signs of life; 0 lets them follow from --lease.")
    ] = None,
    start_within: Annotated[float | None, Parameter(help="Seconds within which a slot is used.")] = None,
    transit: Annotated[float | None, Parameter(help="Seconds that a call travels at most.")] = None,
    when_store_down: Annotated[
        Literal["wait", "share", "fail"] | None, Parameter(help="What happens while the store is gone.")
    ] = None,
    share_processes: Annotated[
        int | None, Parameter(help="Processes that share the limit while the store is gone, under share.")
    ] = None,
    on_disconnect: Annotated[
        Literal["continues", "stops"] | None, Parameter(help="What the provider does with the call of a dead process.")
    ] = None,
    lasting: Duration = None,
    note: Note = "",
    common: LimitReading = _USUAL,
) -> None:
    """What is not given stays as it is. With --for it is an override: it ends by itself, and replaces the last one."""
    from forebay.cli import reading
    from forebay.limits import written

    values: dict[str, Any] = {}
    if preset is not None:
        from forebay.limits.presets import preset as find

        values |= find(preset).values
        note = note or f"preset {preset}"
    values |= _given(
        windows=window and written.windows(window),
        call_timeout_s=call_timeout and reading.duration("--call-timeout", call_timeout),
        max_cooldown_s=max_cooldown and reading.duration("--max-cooldown", max_cooldown),
        cooldown_s=cooldown and written.steps(cooldown),
        breaker_after=breaker_after,
        lease_s=lease,
        heartbeat_s=heartbeat,
        start_within_s=start_within,
        transit_s=transit,
        when_store_down=when_store_down,
        share_processes=share_processes,
        on_disconnect=on_disconnect,
    )
    if in_flight is not None:
        values["in_flight"] = written.in_flight("--in-flight", in_flight)
    if not values:
        raise BadInput("Nothing is given to change.", remedy="Give --in-flight, --window, --preset or another field.")
    for_s = None if lasting is None else reading.duration("--for", lasting)
    with opened_limits(common, create=True) as limiter:
        limiter.configure(name, for_s=for_s, note=_checked(note), who=who(), **values)
        _audit("set_limit", name, common, values=values, for_s=for_s, note=note)
        _say(limiter.usage(name), common, "override" if for_s else "operator")


def _audit(
    verb: str,
    name: str,
    common: LimitReading,
    *,
    values: dict[str, Any] | None = None,
    for_s: float | None = None,
    note: str = "",
) -> None:
    """Leave a line in the audit trail of the ledger, if there is one: limits are used without a ledger as well."""
    from forebay.app.limits import changes_text
    from forebay.model.exchange import Action
    from forebay.stores.address import open_ledger, sqlite_file

    settings = settings_of(common)
    file = sqlite_file(settings.ledger)
    if file is not None and not file.exists():
        return
    try:
        with open_ledger(settings.ledger) as ledger:
            ledger.record_action(verb, [name], Action(who=who(), note=changes_text(values or {}, for_s, note)))
    except StoreError as error:
        output.note(f"forebay: the audit trail has no line of this: {error}")


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _checked(note: str) -> str:
    from forebay.model.names import check_label

    return check_label("--note", note) if note else ""


def _say(usage: Usage, common: LimitReading, changed: str = "") -> None:
    """How it stands now; if a layer was changed, also what keeps that from counting."""
    if common.output != "table":
        output.write([usage.plain()], common.output, one=True)
        return
    from forebay.cli.cells import span
    from forebay.cli.limit_views import bounds_text, state
    from forebay.ids import printable

    output.line(printable(f"{usage.name}  {bounds_text(usage.limit)}  {state(usage)}"))
    names = [each.name for each in usage.layers]
    for each in usage.layers[: names.index(changed) if changed in names else 0]:
        rest = "" if each.for_s is None else f" for another {span(each.for_s)}"
        output.note(f"The layer {each.name} stands above it{rest}: {', '.join(each.values)}.")


def pause(name: Name, /, *, lasting: Duration = None, note: Note = "", common: LimitReading = _USUAL) -> None:
    """Without --for it lasts until it is resumed."""
    from forebay.cli import reading

    for_s = None if lasting is None else reading.duration("--for", lasting)
    with opened_limits(common) as limiter:
        limiter.pause(name, for_s=for_s, note=_checked(note), who=who())
        _audit("pause_limit", name, common, for_s=for_s, note=note)
        _say(limiter.usage(name), common)


def resume(name: Name, /, *, common: LimitReading = _USUAL) -> int:
    """Calls start at once: do it when you know that the provider is well."""
    with opened_limits(common) as limiter:
        limiter.resume(name)
        _audit("resume_limit", name, common)
        usage = limiter.usage(name)
    _say(usage, common)
    if usage.paused:
        output.note(f"forebay: a bound of {name} is 0. Change it by `forebay limits set`, or take it back by clear.")
    return int(usage.paused)


def clear(
    name: Name,
    /,
    *,
    layer: Annotated[Layers, Parameter(help="What to take back.")] = "override",
    common: LimitReading = _USUAL,
) -> None:
    """The layers below it count again. An override ends by itself; the others stay until they are cleared."""
    with opened_limits(common) as limiter:
        if limiter.clear(name, layer):
            _audit("clear_limit", name, common, note=f"layer {layer}")
        else:
            output.note(f"{name} has no layer {layer}.")
        _say(limiter.usage(name), common)


def reset(
    name: Name,
    /,
    *,
    every: Annotated[All, Parameter(help="Running calls, the usage of every window and a cool-down too.")] = False,
    yes: Yes = False,
    common: LimitReading = _USUAL,
) -> int:
    """Never needed to go on: what a dead process holds comes back by itself."""
    with opened_limits(common) as limiter:
        if every and not _agreed(limiter.usage(name), yes=yes):
            return 1
        count = limiter.reset(name, everything=every)
        _audit("reset_limit", name, common, note="everything" if every else "")
        usage = limiter.usage(name)
    if common.output != "table":
        output.write([{"limit": name, "forgotten_count": count, "in_flight": usage.in_flight}], common.output, one=True)
    else:
        output.line(f"{name}  {count} calls forgotten, {usage.in_flight} in flight")
    return 0


def _agreed(usage: Usage, *, yes: bool) -> bool:
    what = f"This forgets {usage.in_flight} running calls of {usage.name} and what its windows have counted"
    if not yes and not sys.stdin.isatty():
        raise BadInput(f"{what}.", remedy="If the provider may see that many more, give --yes.")
    return confirmed(f"{what}. Go on?", yes=yes)


def presets(*, common: Reading = _USUAL_READING) -> None:
    """Confirm the numbers with your contract, then use one: `forebay limits set NAME --preset PRESET`."""
    from forebay.limits.presets import presets as known

    if common.output != "table":
        output.write([_plain(each) for each in known().values()], common.output)
        return
    from forebay.cli.limit_views import bounds_text

    for number, each in enumerate(known().values()):
        if number:
            output.line()
        output.pairs(
            [
                ("preset", each.name),
                ("for", each.about),
                ("bounds", bounds_text(each.limit())),
                ("source", each.source),
                ("checked", each.checked.isoformat()),
                ("note", each.note),
            ]
        )


def _plain(preset: Any) -> dict[str, Any]:  # noqa: ANN401 - loaded when it is called
    from dataclasses import asdict

    from forebay.rules.limit_actions import checked

    return asdict(preset) | {"values": checked(preset.values), "checked": preset.checked.isoformat()}
