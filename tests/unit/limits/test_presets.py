from __future__ import annotations

import pytest

from forebay.errors import NotFound
from forebay.limits import Limiter, Window
from forebay.limits.presets import preset, presets, redis_tags
from tests.unit.builders import assert_helpful

BOUNDS = {
    "docai": (5, ()),
    "adobe": (150, (Window(190, 60),)),
    "adobe-conservative": (100, (Window(150, 60),)),
    "adobe-aggressive": (180, (Window(195, 60),)),
    "adobe-published": (None, (Window(100, 60),)),
    "adobe-published-free": (None, (Window(25, 60),)),
}


def test_the_presets_are_these() -> None:
    assert {name: (each.limit().in_flight, each.limit().windows) for name, each in presets().items()} == BOUNDS
    docai = preset("docai").limit()
    assert (docai.call_timeout_s, docai.when_store_down) == (60, "share")


@pytest.mark.parametrize("name", BOUNDS)
def test_each_says_where_its_numbers_come_from(name: str) -> None:
    found = preset(name)
    assert all((found.about, found.source, found.note))
    assert found.checked.year >= 2026


def test_the_keys_of_docai_have_their_own_hash_tag() -> None:
    assert redis_tags("prod") == {"docai": "docai_semaphore:prod"}


def test_a_preset_is_the_lowest_layer_and_may_have_another_name() -> None:
    with Limiter("memory://") as limiter:
        limiter.preset("adobe", as_="autotag")
        usage = limiter.usage("autotag")
        assert (usage.limit.in_flight, usage.sources["in_flight"], usage.sources["lease_s"]) == (
            150,
            "preset",
            "default",
        )
        limiter.configure("autotag", in_flight=20)
        assert limiter.usage("autotag").limit.in_flight == 20
        limiter.preset("adobe-conservative", as_="autotag")
        usage = limiter.usage("autotag")
        assert (usage.limit.in_flight, usage.limit.windows[0].n) == (20, 150)


@pytest.mark.parametrize(("name", "hint"), [("adoby", "adobe"), ("zzz", "docai"), ("", "docai")])
def test_an_unknown_preset_is_refused_with_those_that_exist(name: str, hint: str) -> None:
    with pytest.raises(NotFound) as caught:
        preset(name)
    assert_helpful(caught.value)
    assert hint in caught.value.remedy
