"""Says how many processes call under which limit on which store, and names the fleets that the limiter must carry."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forebay.limits import Limit, Window

LIMIT = "fleet"
_STARTS_S = 2.0
_CLOCK_S = 0.001  # which rounds down


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`window_n` of 0 is no window. Callers are threads, or tasks of one event loop in each process."""

    processes: int
    callers: int
    in_flight: int
    call_s: float
    seconds: float
    store: str = "redis"
    window_n: int = 0
    window_s: float = 30.0
    tasks: bool = False
    warm_s: float = 5.0
    """From the start signal to the first counted instant; the processes start within its first two fifths."""

    @property
    def title(self) -> str:
        form = "tasks" if self.tasks else "threads"
        window = f", {self.window_n:,} per {self.window_s:g} s" if self.window_n else ""
        return (
            f"{self.processes} processes of {self.callers} {form} on {self.store}: {self.in_flight} in flight{window},"
            f" calls of {1000 * self.call_s:g} ms"
        )

    @property
    def limit(self) -> Limit:
        windows = (Window(self.window_n, per_s=self.window_s),) if self.window_n else ()
        return Limit(LIMIT, in_flight=self.in_flight, windows=windows, call_timeout_s=2 * self.call_s + 5)

    @property
    def enforced_s(self) -> float:
        """W_eff, as `docs/explanation/limits.md` (L2) has it."""
        limit = self.limit
        return self.window_s + limit.start_within_s + limit.transit_s + _CLOCK_S

    @property
    def by_window(self) -> float:
        """Calls a second, by the window alone."""
        return self.window_n / self.enforced_s if self.window_n else float("inf")

    @property
    def start_spread_s(self) -> float:
        return min(_STARTS_S, 0.4 * self.warm_s)

    @property
    def allowed(self) -> float:
        """Calls a second, by in_flight alone."""
        return self.in_flight / self.call_s if self.call_s else float("inf")

    @property
    def local(self) -> list[int]:
        """How many slots the local semaphore of each process has, with the same sum; none where they do not suffice."""
        share, rest = divmod(self.in_flight, self.processes)
        return [share + (number < rest) for number in range(self.processes)]


def _half(processes: int, store: str = "redis", *, seconds: float = 10.0) -> Plan:
    """Half of the callers may call at once."""
    in_flight = processes * 5 // 2
    return Plan(processes=processes, callers=5, in_flight=in_flight, call_s=0.25, seconds=seconds, store=store)


PRESETS: dict[str, tuple[Plan, ...]] = {
    "200x5": (Plan(processes=200, callers=5, in_flight=500, call_s=1.0, seconds=15, warm_s=8),),
    "100x5": (Plan(processes=100, callers=5, in_flight=250, call_s=0.05, seconds=10),),
    "500x1": (
        Plan(processes=500, callers=1, in_flight=250, call_s=5.0, seconds=65, warm_s=15, window_n=1200, window_s=30.0),
    ),
    "overload": tuple(_half(processes) for processes in (50, 100, 200, 300, 400)),
    "postgres": tuple(_half(processes, "postgres") for processes in (25, 50)),
    "sqlite": tuple(_half(processes, "sqlite") for processes in (25, 50)),
}


def quick(plan: Plan) -> Plan:
    """The same in small: whether all of it runs."""
    processes = min(plan.processes, 6)
    return replace(
        plan,
        processes=processes,
        in_flight=max(1, plan.in_flight * processes // plan.processes),
        window_n=20 if plan.window_n else 0,
        window_s=1.0,
        call_s=min(plan.call_s, 0.1),
        seconds=3.0 if plan.window_n else 1.0,
        warm_s=0.5,
    )
