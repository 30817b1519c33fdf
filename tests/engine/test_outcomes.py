from __future__ import annotations

import pytest

from forebay.engine.outcomes import of_error
from forebay.errors import (
    BlobMissing,
    MaybeApplied,
    ResultCorrupt,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreUnreachable,
)
from forebay.model.outcome import Failed


@pytest.mark.parametrize(
    "kind", [StoreFull, StoreUnreachable, StoreBusy, StoreCorrupt, MaybeApplied, BlobMissing, ResultCorrupt]
)
def test_what_a_task_keeps_of_a_store_in_trouble_names_no_folder_and_its_traceback_does(kind: type) -> None:
    outcome = of_error(kind("No room left in file:///srv/forebay/blobs.", remedy="Make room below /srv/forebay."))
    assert isinstance(outcome, Failed)
    assert "/srv" not in outcome.text
    assert outcome.text.startswith(kind.__name__)
    assert "/srv/forebay/blobs" in (outcome.traceback or "")
