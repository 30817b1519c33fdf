"""The promises of a ledger as a test class: a subclass gives it a way to make one, and all of them are tested."""

from forebay.testing.conformance.announcing import CallbackPromises
from forebay.testing.conformance.canceling import CancelPromises
from forebay.testing.conformance.claiming import ClaimPromises
from forebay.testing.conformance.fencing import FencePromises
from forebay.testing.conformance.finishing import JobPromises
from forebay.testing.conformance.keying import KeyPromises
from forebay.testing.conformance.living import SessionPromises
from forebay.testing.conformance.losing import LostResultPromises
from forebay.testing.conformance.pausing import PausePromises
from forebay.testing.conformance.progressing import ProgressPromises
from forebay.testing.conformance.racing import RacePromises
from forebay.testing.conformance.reading import ReadPromises
from forebay.testing.conformance.recording import RecordPromises
from forebay.testing.conformance.refusing import RefusalPromises
from forebay.testing.conformance.removing import RemovalPromises
from forebay.testing.conformance.repeating import RepeatPromises
from forebay.testing.conformance.rescuing import RescuePromises
from forebay.testing.conformance.retrying import RetryPromises
from forebay.testing.conformance.reusing import ReusePromises
from forebay.testing.conformance.sharing import FairnessPromises
from forebay.testing.conformance.submitting import SubmitPromises
from forebay.testing.conformance.waiting import WaitPromises

__all__ = ["LedgerSuite"]


class LedgerSuite(
    SubmitPromises,
    ClaimPromises,
    WaitPromises,
    FairnessPromises,
    FencePromises,
    RepeatPromises,
    SessionPromises,
    ProgressPromises,
    RescuePromises,
    CancelPromises,
    PausePromises,
    RetryPromises,
    LostResultPromises,
    JobPromises,
    CallbackPromises,
    RecordPromises,
    ReusePromises,
    RemovalPromises,
    ReadPromises,
    RefusalPromises,
    KeyPromises,
    RacePromises,
):
    """All of them. A store's test class defines `make_ledger`, and `reopen` if its data outlives the object."""
