"""Finds the programs that test dependencies carry, without running the Python code around them."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.servers.process import ServerError


def program_in_wheel(package: str, name: str) -> Path | None:
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).resolve() for file in files if file.name == name), None)


def missing(server: str, package: str, variable: str) -> ServerError:
    return ServerError(
        f"{server} is missing: the tests need it. Install the test dependencies (they carry it "
        f"in the package {package}), or name a running one in {variable}."
    )
