from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from forebay.blobs.address import open_blobs
from forebay.errors import BadInput
from forebay.observe.redact import mask_text
from forebay.settings import Settings, Source, load
from forebay.stores.address import _file
from tests.unit.builders import assert_helpful

CANARY = "kanarienvogel"
HOME = {"HOME": "/home/ada"}
NUMBERS = [
    (name, next(each.ge for each in field.metadata if hasattr(each, "ge")))
    for name, field in Settings.model_fields.items()
    if any(hasattr(each, "ge") for each in field.metadata)
]
LINUX = pytest.mark.skipif(sys.platform == "darwin", reason="macOS keeps its folders elsewhere")


def refused(tmp_path: Path, flags: dict[str, object] | None = None, **environ: str) -> BadInput:
    with pytest.raises(BadInput) as caught:
        load(flags, environ={**HOME, **environ}, cwd=tmp_path)
    # However long the path of a test's folder is.
    assert_helpful(BadInput(caught.value.what.replace(str(tmp_path), ""), remedy=caught.value.remedy))
    assert not isinstance(caught.value.__context__, ValidationError)
    return caught.value


def source(settings: Settings, name: str) -> Source:
    return next(each for each in settings.sources() if each.name == name)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_those_of_the_design(tmp_path: Path) -> None:
    settings = load(environ=HOME, cwd=tmp_path)
    assert (settings.env, settings.concurrency, settings.lease_s, settings.poll_s) == ("dev", 10, 15, 5)
    assert (settings.drain_grace_s, settings.claims_per_exchange, settings.payload_max_bytes) == (30, 250, 1024 * 1024)
    assert settings.processes >= 1
    assert settings.handler_memory_mb is settings.handler_cpu_s is settings.metrics_port is None
    assert {each.source for each in settings.sources()} == {"default"}


@LINUX
def test_the_stores_lie_in_the_data_folder_of_the_user(tmp_path: Path) -> None:
    settings = load(environ=HOME, cwd=tmp_path)
    assert settings.home == Path("/home/ada/.local/share/forebay")
    assert settings.ledger == "sqlite:////home/ada/.local/share/forebay/forebay.db"
    assert settings.blobs == "file:///home/ada/.local/share/forebay/blobs"


def test_macos_keeps_data_and_settings_in_application_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    folder = tmp_path / "Library" / "Application Support" / "forebay"
    written(folder / "forebay.toml", "lease_s = 44")
    settings = load(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert (settings.home, settings.lease_s) == (folder, 44)


def test_xdg_folders_win_unless_they_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    written(tmp_path / "config" / "forebay" / "forebay.toml", "lease_s = 44")
    chosen = {**HOME, "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    settings = load(environ=chosen, cwd=tmp_path)
    assert (settings.home, settings.lease_s) == (tmp_path / "data" / "forebay", 44)
    assert load(environ={**HOME, "XDG_DATA_HOME": "data"}, cwd=tmp_path).home.is_relative_to("/home/ada")


@pytest.mark.parametrize("name", ["plain", "with blank", "50%", "a#b?c", "größe", "a'b\"c"])
def test_default_addresses_lead_back_to_any_home(name: str, tmp_path: Path) -> None:
    home = tmp_path / name
    settings = load({"home": home}, environ=HOME, cwd=tmp_path)
    assert _file("", settings.ledger.removeprefix("sqlite://"), "") == home / "forebay.db"
    open_blobs(settings.blobs).put("default", b"bytes")
    assert (home / "blobs").is_dir()


def test_a_home_may_be_relative_or_begin_with_a_tilde(tmp_path: Path) -> None:
    assert load({"home": "../x/./y"}, environ=HOME, cwd=tmp_path / "deep").home == tmp_path / "x" / "y"
    assert load({"home": "~/x"}, environ=HOME, cwd=tmp_path).home == Path("/home/ada/x")


@pytest.mark.parametrize("home", ["\0", "\udcff", 5, True])
def test_a_home_that_is_no_path_is_refused(home: object, tmp_path: Path) -> None:
    assert refused(tmp_path, {"home": home}).what.startswith("home (flag) is ")


def test_without_any_home_folder_one_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(BadInput, match="FOREBAY_HOME"):
        load(environ={}, cwd=tmp_path)
    assert load(environ={"FOREBAY_HOME": "/data"}, cwd=tmp_path).ledger == "sqlite:////data/forebay.db"


def test_flags_win_over_the_environment_that_over_the_file_that_over_the_default(tmp_path: Path) -> None:
    file = written(tmp_path / "forebay.toml", "lease_s = 20\npoll_s = 2\nconcurrency = 4\n")
    environ = {**HOME, "FOREBAY_LEASE_S": "30", "FOREBAY_POLL_S": "3"}
    settings = load({"lease_s": 40, "concurrency": None}, environ=environ, cwd=tmp_path)
    assert (settings.lease_s, settings.poll_s, settings.concurrency, settings.drain_grace_s) == (40, 3, 4, 30)
    origins = [source(settings, name).source for name in ("lease_s", "poll_s", "concurrency", "drain_grace_s")]
    assert origins == ["flag", "environment FOREBAY_POLL_S", str(file), "default"]


def test_sources_show_value_default_and_description(tmp_path: Path) -> None:
    shown = source(load({"lease_s": 20.5}, environ=HOME, cwd=tmp_path), "lease_s")
    assert (shown.value_shown, shown.default_shown) == ("20.5", "15")
    assert shown.description.endswith(".")


def test_the_environment_of_the_process_counts_only_if_no_other_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREBAY_LEASE_S", "33")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load().lease_s == 33
    assert load(environ=HOME).lease_s == 15


def test_an_empty_variable_is_an_unset_one(tmp_path: Path) -> None:
    assert load(environ={**HOME, "FOREBAY_LEASE_S": "", "FOREBAY_CONFIG": ""}, cwd=tmp_path).lease_s == 15


def test_none_takes_back_what_a_file_set(tmp_path: Path) -> None:
    written(tmp_path / "forebay.toml", "metrics_port = 9000")
    settings = load(environ={**HOME, "FOREBAY_METRICS_PORT": "none"}, cwd=tmp_path)
    assert settings.metrics_port is None
    assert source(settings, "metrics_port").value_shown == "none"


def test_the_named_file_is_read_instead_of_the_one_here(tmp_path: Path) -> None:
    written(tmp_path / "forebay.toml", "lease_s = 20")
    written(tmp_path / "other.toml", "lease_s = 21")
    settings = load(environ={**HOME, "FOREBAY_CONFIG": "other.toml"}, cwd=tmp_path)
    assert settings.lease_s == 21
    assert source(settings, "lease_s").source == str(tmp_path / "other.toml")


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "forebay.toml", "lease_s = 20")
    problem = refused(tmp_path, FOREBAY_CONFIG="missing.toml")
    assert str(tmp_path / "missing.toml") in problem.what
    assert "FOREBAY_CONFIG" in problem.remedy


@pytest.mark.parametrize(
    "text", ["lease_s = ", "lease_s 15", "a = 1\na = 2", "x = " + "[" * 3000, "d = 2020-99-99", "n = " + "9" * 5000]
)
def test_a_file_that_is_not_toml_is_refused_by_its_path(text: str, tmp_path: Path) -> None:
    file = written(tmp_path / "forebay.toml", text)
    assert str(file) in refused(tmp_path).what


def test_a_file_that_is_not_utf8_or_not_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "forebay.toml").write_bytes(b"env = '\xff'")
    assert "not TOML" in refused(tmp_path).what
    (tmp_path / "folder").mkdir()
    assert "cannot be read" in refused(tmp_path, FOREBAY_CONFIG="folder").what


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    file = written(tmp_path / "forebay.toml", "leese_s = 20")
    problem = refused(tmp_path)
    assert str(file) in problem.what
    assert "'leese_s'" in problem.what
    assert problem.remedy == "Did you mean lease_s?"


def test_an_unknown_table_is_refused_and_told_where_the_settings_are(tmp_path: Path) -> None:
    written(tmp_path / "forebay.toml", "[xyzzy]\nlease_s = 20")
    assert "forebay config show" in refused(tmp_path).remedy


def test_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, {"concurency": 3}).remedy == "Did you mean concurrency?"


def test_unknown_variables_are_told_and_harmless(tmp_path: Path) -> None:
    environ = {**HOME, "FOREBAY_LEES_S": "1", "forebay_lease_s": "9", "FOREBAY_CONFIG": "", "FOREBAYS": "x"}
    settings = load(environ=environ, cwd=tmp_path)
    assert settings.unknown_variables() == ["FOREBAY_LEES_S", "forebay_lease_s"]
    assert settings.lease_s == 15


@pytest.mark.parametrize(("name", "least"), NUMBERS)
def test_every_number_has_bounds_and_says_them(name: str, least: float, tmp_path: Path) -> None:
    for wrong in (least - 1, 1e300, "nan", "inf", "many", True, [1]):
        problem = refused(tmp_path, {name: wrong})
        assert problem.what.startswith(f"{name} (flag) is ")
        assert f"from {least:.10g} to " in problem.remedy
    assert getattr(load({name: least}, environ=HOME, cwd=tmp_path), name) == least


def test_a_bad_value_is_refused_with_its_source(tmp_path: Path) -> None:
    file = written(tmp_path / "forebay.toml", "lease_s = 0.5")
    assert str(refused(tmp_path)) == f"lease_s ({file}) is 0.5. Give a number of seconds from 1 to 3600."
    problem = refused(tmp_path, FOREBAY_LEASE_S="soon")
    assert str(problem).startswith("lease_s (environment FOREBAY_LEASE_S) is 'soon'. ")


@pytest.mark.parametrize("name", ["", "Prod", "a/b", "a b", "x" * 65, "..", "é", 5])
def test_the_environments_name_has_the_alphabet_of_names(name: object, tmp_path: Path) -> None:
    assert refused(tmp_path, {"env": name}).what.startswith("env (flag) is ")


def test_words_outside_the_choice_are_refused_with_the_choice(tmp_path: Path) -> None:
    assert refused(tmp_path, {"log_level": "loud"}).remedy == "Give 'debug', 'info', 'warning' or 'error'."
    assert refused(tmp_path, {"log_format": "xml"}).remedy == "Give 'auto', 'console' or 'json'."
    assert "host" in refused(tmp_path, {"metrics_host": "a b"}).remedy


@pytest.mark.parametrize("address", [CANARY, f"postgresql://u:{CANARY} x@h/d", f"s3:\n{CANARY}", ""])
def test_a_bad_address_is_refused_without_showing_it(address: str, tmp_path: Path) -> None:
    problem = refused(tmp_path, {"ledger": address})
    assert problem.what == "ledger (flag) is not an address."
    assert CANARY not in "".join(traceback.format_exception(problem))


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://{CANARY}@host/db",
        f"postgresql://ada:{CANARY}@host/db",
        f"postgresql://ada:x/{CANARY}@host/db",
        f"postgresql://ada:x@{CANARY}@host/db",
        f"postgresql://host/db?password={CANARY}",
        f"postgresql://host/db?sslmode=require&sslpassword={CANARY}",
        f"s3://host/db?X-Amz-Signature={CANARY}&x=1",
        f"s3://host/db?AWSAccessKeyId={CANARY}",
        f"s3://host/db?api_key={CANARY}&security-token={CANARY}",
        f"s3://host/db?p%61ssword={CANARY}",
    ],
)
def test_secrets_in_addresses_are_masked_wherever_settings_are_shown(address: str, tmp_path: Path) -> None:
    settings = load({"ledger": address, "limits": address, "blobs": address}, environ=HOME, cwd=tmp_path)
    shown = f"{settings!r} {settings} {settings.sources()}"
    assert CANARY not in shown
    assert shown.count("host/db") == 10  # thrice of each three, and as the default of the limits
    assert settings.ledger == address


@pytest.mark.parametrize(
    ("ledger", "limits"),
    [
        ("sqlite:////data/forebay.db", "sqlite:////data/forebay.db-limits.db"),
        ("memory://", "memory://"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_limits_lie_beside_the_ledger_unless_they_are_named(ledger: str, limits: str, tmp_path: Path) -> None:
    assert load({"ledger": ledger}, environ=HOME, cwd=tmp_path).limits == limits
    chosen = {**HOME, "FOREBAY_LIMITS": "redis://host/0"}
    assert load({"ledger": ledger}, environ=chosen, cwd=tmp_path).limits == "redis://host/0"


def test_limits_in_the_file_are_tables_beside_their_address(tmp_path: Path) -> None:
    file = written(tmp_path / "forebay.toml", '[limits]\naddress = "redis://a/0"\n[limits.adobe]\nin_flight = 5\n')
    settings = load(environ=HOME, cwd=tmp_path)
    assert settings.limits == "redis://a/0"
    assert source(settings, "limits").source == str(file)
    written(file, "[limits.address]\nin_flight = 5\n")
    assert source(load(environ=HOME, cwd=tmp_path), "limits").source == "default"
    written(file, 'limits = "redis://b/0"')
    assert load(environ=HOME, cwd=tmp_path).limits == "redis://b/0"


@pytest.mark.parametrize("text", ["[limits]\nadobe = 5", "[limits]\naddress = 5", "limits = 5", "[[limits]]\nx = 5"])
def test_limits_that_are_neither_an_address_nor_tables_are_refused(text: str, tmp_path: Path) -> None:
    written(tmp_path / "forebay.toml", text)
    refused(tmp_path)


def test_variables_of_single_limits_are_no_strangers(tmp_path: Path) -> None:
    environ = {**HOME, "FOREBAY_LIMIT_ADOBE_IN_FLIGHT": "5", "FOREBAY_LIMITES": "x"}
    assert load(environ=environ, cwd=tmp_path).unknown_variables() == ["FOREBAY_LIMITES"]


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = load(environ=HOME, cwd=tmp_path)
    with pytest.raises(ValidationError):
        settings.lease_s = 3


def test_loading_creates_nothing(tmp_path: Path) -> None:
    load(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_current_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    # Imported before: in a folder that is gone, Python 3.13.0 cannot load compiled packages.
    code = f"import os; from forebay.settings import load; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); load()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "The current folder is gone. Change into a folder that exists." in run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins a process to cores")
def test_processes_are_as_many_as_the_usable_cores(tmp_path: Path) -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from forebay.settings import load; print(load(environ={'HOME': '/h'}).processes)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.strip() == "1"


@pytest.mark.parametrize("name", ["docai_token", "docai_api_key", "llm_api_key"])
def test_a_key_is_shown_nowhere_and_hidden_from_every_log(tmp_path: Path, name: str) -> None:
    secret = f"{CANARY}-{name}"
    settings = load(environ={**HOME, f"FOREBAY_{name.upper()}": secret}, cwd=tmp_path)
    assert getattr(settings, name) == secret
    assert source(settings, name).value_shown == "***"
    assert secret not in repr(settings)
    assert secret not in mask_text(f"they said {secret}")
    assert settings.as_environment()[f"FOREBAY_{name.upper()}"] == secret


def test_a_key_that_cannot_be_used_is_not_shown_either(tmp_path: Path) -> None:
    error = refused(tmp_path, FOREBAY_LLM_API_KEY=CANARY * 200)
    assert CANARY not in str(error)


def test_the_files_of_keys_are_found_from_where_one_stands(tmp_path: Path) -> None:
    settings = load(environ={**HOME, "FOREBAY_DOCAI_CREDENTIALS": "keys/a.json"}, cwd=tmp_path)
    assert settings.docai_credentials == tmp_path / "keys" / "a.json"
    assert load(environ={**HOME, "FOREBAY_LLM_API_KEY_FILE": "none"}, cwd=tmp_path).llm_api_key_file is None


def test_the_password_of_a_proxy_is_not_shown(tmp_path: Path) -> None:
    settings = load(environ={**HOME, "FOREBAY_PROXY": f"http://ann:{CANARY}@proxy:3128"}, cwd=tmp_path)
    assert source(settings, "proxy").value_shown == "http://***@proxy:3128"
    assert CANARY not in repr(settings)


def test_the_variables_of_other_segmenters_are_read_below_our_own_names(tmp_path: Path) -> None:
    environ = {
        **HOME,
        "JOB_TIMEOUT_SECONDS": "60",
        "MAX_FILE_SIZE_LIMIT": "50000",
        "USE_GOOGLE_LANGUAGE_DETECTION": "True",
        "LANGUAGE_DETECT_GOOGLE_TIMEOUT_SECONDS": "5",
        "LANGUAGE_DETECT_LLM_TIMEOUT_SECONDS": "20",
        "LLM_BACKEND": "azure",
        "SYSTEM_DEFAULT_LANGUAGE": "de",
        "FOREBAY_LANGUAGE_DEFAULT": "fr",
    }
    settings = load(environ=environ, cwd=tmp_path)
    assert (settings.segment_timeout_s, settings.llm_backend) == (60, "azure")
    assert (settings.document_max_bytes, settings.upload_max_bytes) == (50_000, 50_000)
    assert (settings.language_google, settings.language_google_timeout_s) == ("on", 5)
    assert (settings.language_llm_timeout_s, settings.language_default) == (20, "fr")
    assert settings.origin("segment_timeout_s") == "environment JOB_TIMEOUT_SECONDS"
    assert settings.unknown_variables() == []


@pytest.mark.slow
def test_what_is_of_no_use_here_is_told_and_harmless(tmp_path: Path) -> None:
    environ = {**HOME, "MIMETYPE_MAGIC_LOOKAHEAD": "5000", "LLM_BACKEND": "ollama"}
    settings = load(environ=environ, cwd=tmp_path)
    assert settings.llm_backend == "openai"
    assert settings.unknown_variables() == ["MIMETYPE_MAGIC_LOOKAHEAD", "LLM_BACKEND"]


@pytest.mark.slow
def test_a_foreign_variable_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    assert "JOB_TIMEOUT_SECONDS" in refused(tmp_path, JOB_TIMEOUT_SECONDS="soon").what
    assert "SYSTEM_DEFAULT_LANGUAGE" in refused(tmp_path, SYSTEM_DEFAULT_LANGUAGE="English").what
    assert "language_google" in refused(tmp_path, USE_GOOGLE_LANGUAGE_DETECTION="perhaps").what
