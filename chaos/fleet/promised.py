"""What the limits of the run promise: told to workers by their application, and to the judge without it."""

from __future__ import annotations

from chaos.limits.rules import Rules, Window, trail_of

NARROW, PACED = "narrow", "paced"
CALL_S = 1.5
LEASE_S = 1.5
BEAT_S = 0.5
DRAIN_GRACE_S = 5.0
"""A server that was killed takes some seconds to come back, longer on busy cores."""
START_S, TRANSIT_S = 0.5, 0.25
"""Wide, since workers are started and killed on the same few cores all the time."""
TRAIL_S = START_S + TRANSIT_S
LONGEST_MS = 600
RULES = {
    NARROW: Rules(
        in_flight=5, trail_s=trail_of(START_S, TRANSIT_S, has_windows=False), ramp="arrivals", window_extra_s=TRAIL_S
    ),
    PACED: Rules(in_flight=4, windows=(Window(24, 2.0),), trail_s=TRAIL_S, ramp="arrivals", window_extra_s=TRAIL_S),
}
