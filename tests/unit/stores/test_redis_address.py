"""Addresses of Redis: what they name, and that no error shows a password."""

from __future__ import annotations

import pytest

from forebay.errors import BadInput
from forebay.observe.redact import mask_address
from forebay.stores.limit_address import open_limits
from forebay.stores.redis.address import read_address
from forebay.stores.redis.endpoint import Clustered, Single, Watched

SECRET = "hunter2-not-to-be-shown"


def test_a_sentinel_address_names_sentinels_service_and_database() -> None:
    found = read_address(f"redis+sentinel://ada:{SECRET}@one:1,two,[::1]:3/my%20master/4?socket_timeout=9")
    assert isinstance(found, Watched)
    assert [each.address for each in found.sentinels] == [("one", 1), ("two", 26379), ("::1", 3)]
    assert (found.service, found.template.options["db"]) == ("my master", 4)
    assert (found.template.options["username"], found.template.options["password"]) == ("ada", SECRET)
    assert found.template.options["socket_timeout"] == found.sentinels[0].options["socket_timeout"] == 9
    assert found.place == "redis+sentinel://one:1,two:26379,[::1]:3/my master/4"
    assert found.template.at("there", 7).place == "redis://there:7/4"


def test_sentinels_have_a_user_of_their_own_or_none() -> None:
    found = read_address(f"redis+sentinel://ada:{SECRET}@one/m?sentinel_username=bob&sentinel_password=p%40ss")
    assert isinstance(found, Watched)
    assert [found.sentinels[0].options[name] for name in ("username", "password")] == ["bob", "p@ss"]
    plain = read_address(f"redis+sentinel://:{SECRET}@one/m")
    assert isinstance(plain, Watched)
    assert "password" not in plain.sentinels[0].options


def test_tls_holds_for_servers_and_sentinels() -> None:
    found = read_address("rediss+sentinel://one/m?ssl_ca_certs=/ca.pem&ssl_check_hostname=false")
    assert isinstance(found, Watched)
    for each in (found.template, *found.sentinels):
        assert each.is_tls
        assert (each.options["ssl_ca_certs"], each.options["ssl_check_hostname"]) == ("/ca.pem", False)


def test_a_cluster_address_names_nodes() -> None:
    found = read_address(f"redis+cluster://ada:{SECRET}@one:1,two?socket_connect_timeout=1")
    assert isinstance(found, Clustered)
    assert [each.address for each in found.nodes] == [("one", 1), ("two", 6379)]
    assert found.nodes[1].options["password"] == SECRET
    assert found.place == "redis+cluster://one:1,two:6379"


def test_the_words_of_celery_are_understood() -> None:
    found = read_address("rediss://host/0?ssl_cert_reqs=CERT_REQUIRED")
    assert isinstance(found, Single)
    assert found.endpoint.options["ssl_cert_reqs"] == "required"


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster"])
def test_all_schemes_open_without_a_server(scheme: str) -> None:
    open_limits(f"{scheme}://one:1{',two:2/m' if 'sentinel' in scheme else ''}", "prod").close()


@pytest.mark.parametrize(
    "address",
    [
        "redis+sentinel://u:{}@one:1",
        "redis+sentinel://u:{}@/m",
        "redis+sentinel://u:{}@one:x/m",
        "redis+sentinel://u:{}@one/m/database",
        "redis+sentinel://u:{}@one/m?nonsense={}",
        "redis+cluster://u:{}@",
        "redis+cluster://u:{}@one:1/database",
        "redis+cluster://u:{}@one?ssl_ca_certs=/ca.pem",
        "redis+other://u:{}@one",
        "rediss+cluster://u:{}/@one",
        "redis://u:12/{}@one",
        "redis+sentinel://u:12/{}@one",
        "redis+sentinel://u:12/m/{}@one",
        "redis+cluster://u:12/{}@one",
        "unix://u:12/{}@/path",
        "redis://:12?{}@one",
        "redis://u:12#{}@one",
        "redis+sentinel://u:12/m?{}@one",
        "redis+cluster://u:12?{}@one",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_limits(address.replace("{}", SECRET), "prod")
    assert SECRET not in str(caught.value)
    assert "redis" in caught.value.remedy


def test_an_endpoint_does_not_show_its_password() -> None:
    found = read_address(f"redis+sentinel://ada:{SECRET}@one/m?sentinel_password={SECRET}")
    assert SECRET not in repr(found)
    assert "redis://primary" in repr(found)


def test_no_password_of_an_address_is_shown() -> None:
    shown = mask_address(f"redis+sentinel://u:{SECRET}@one:1,two:2/m?sentinel_password={SECRET}&ssl_password={SECRET}")
    assert SECRET not in shown
    assert "one:1,two:2/m" in shown
