"""The promises of a limit store as a test class: a subclass gives it a way to make one, and all of them are tested."""

from forebay.testing.limits.bounding import BoundPromises
from forebay.testing.limits.configuring import ConfigPromises
from forebay.testing.limits.cooling import CoolDownPromises
from forebay.testing.limits.counting import UnitPromises
from forebay.testing.limits.forecasting import ForecastPromises
from forebay.testing.limits.forgetting import MemoryPromises
from forebay.testing.limits.freshening import FreshPromises
from forebay.testing.limits.holding import HoldPromises
from forebay.testing.limits.in_hand import InHandPromises
from forebay.testing.limits.lining import LinePromises
from forebay.testing.limits.placing import PlacePromises
from forebay.testing.limits.repeating import RepeatPromises
from forebay.testing.limits.restamping import StartPromises
from forebay.testing.limits.returning import ReturnPromises
from forebay.testing.limits.storing import StorePromises
from forebay.testing.limits.timing import TimePromises

__all__ = ["LimitStoreSuite"]


class LimitStoreSuite(
    BoundPromises,
    UnitPromises,
    FreshPromises,
    HoldPromises,
    RepeatPromises,
    LinePromises,
    InHandPromises,
    PlacePromises,
    ReturnPromises,
    StartPromises,
    CoolDownPromises,
    TimePromises,
    MemoryPromises,
    ConfigPromises,
    ForecastPromises,
    StorePromises,
):
    """All of them. A store's test class defines `make_store`; see `forebay.testing.limits.case.LimitCase`."""
