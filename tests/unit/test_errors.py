from __future__ import annotations

import copy
import pickle

import pytest

from forebay import errors
from forebay.errors import ForebayError

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ForebayError)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
def test_an_error_survives_the_way_between_processes(kind: type[ForebayError]) -> None:
    raised = kind("limit 'adobe' is gone.", remedy="Define it again.")
    for again in (pickle.loads(pickle.dumps(raised)), copy.copy(raised)):
        assert type(again) is kind
        assert (again.what, again.remedy) == ("limit 'adobe' is gone.", "Define it again.")
        assert str(again) == str(raised)


@every_kind
def test_an_error_says_what_and_then_what_to_do(kind: type[ForebayError]) -> None:
    assert str(kind("It is full.", remedy="Delete something.")) == "It is full. Delete something."
    assert str(kind("It is full.")) == "It is full."
    assert kind("It is full.", remedy="Delete something.").args == ("It is full.",)


@every_kind
def test_an_error_knows_its_http_status_and_exit_code(kind: type[ForebayError]) -> None:
    assert 400 <= kind.http_status < 600
    assert kind.exit_code in {1, 2, 4, 5, 6, 7, 8}


@every_kind
def test_a_special_error_keeps_the_exit_code_of_its_family(kind: type[ForebayError]) -> None:
    family = kind.__bases__[0]
    if family is not Exception and family is not ForebayError:
        assert issubclass(family, ForebayError)
        assert kind.exit_code == family.exit_code


def test_no_two_errors_share_a_code() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS)


def test_the_tree_in_the_docstring_has_every_error_in_its_place() -> None:
    tree = errors.__doc__ or ""
    drawn = {}
    path: list[str] = []
    for line in tree.splitlines()[2:]:
        name = next((word for word in line.split() if word.isalpha()), "")
        depth = line.index(name) // 4
        path[depth:] = [name]
        drawn[name] = path[depth - 1] if depth else "Exception"
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS}
