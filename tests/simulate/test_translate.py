from __future__ import annotations

from forebay.testing import Simulated
from tests.simulate.ground import BEARER, Clients

V2 = "/language/translate/v2/detect"
V3 = "/v3/projects/p/locations/global:detectLanguage"
GERMAN = "Das ist ein kleiner Fluss im Wald"


def test_version_2_answers_each_text(clients: Clients) -> None:
    answer = clients.http.post(f"{V2}?key=k", data={"q": [GERMAN, "Where is the old house of my friend"]})
    found = answer.json()["data"]["detections"]
    assert [each[0]["language"] for each in found] == ["de", "en"]
    assert found[0][0]["isReliable"]
    assert clients.http.post(f"{V2}?key=k", json={"q": GERMAN}).json()["data"]["detections"][0][0]["language"] == "de"


def test_version_3_answers_with_languages(clients: Clients) -> None:
    answer = clients.http.post(V3, json={"content": GERMAN, "mimeType": "text/plain"}, headers=BEARER)
    (found,) = answer.json()["languages"]
    assert found["languageCode"] == "de"
    assert 0 < found["confidence"] <= 1


def test_what_is_in_no_language_is_undetermined(clients: Clients) -> None:
    answer = clients.http.post(V3, json={"content": "12345 67890"}, headers=BEARER)
    assert answer.json()["languages"][0]["languageCode"] == "und"


def test_it_says_429_for_now_and_403_for_good(clients: Clients, sim: Simulated) -> None:
    body = {"content": GERMAN}
    sim.change(quotas={"translate": {"windows": [{"n": 40, "per_s": 60, "unit": "characters"}]}})
    assert clients.http.post(V3, json=body, headers=BEARER).status_code == 200
    assert clients.http.post(V3, json=body, headers=BEARER).json()["error"]["status"] == "RESOURCE_EXHAUSTED"
    daily = clients.http.post(V3, json=body, headers=BEARER | {"x-simulate": "quota"})
    assert (daily.status_code, daily.json()["error"]["errors"][0]["reason"]) == (403, "dailyLimitExceeded")


def test_credentials_and_text_are_asked_for(clients: Clients) -> None:
    assert clients.http.post(V3, json={"content": GERMAN}).status_code == 401
    assert clients.http.post(V3, json={}, headers=BEARER).status_code == 400
    assert clients.http.post(f"{V2}?key=k", data={}).status_code == 400
