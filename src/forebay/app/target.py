"""Finds an application by its name, `module:app` or `path/to/file.py:app`, and the name of an application."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from forebay.app.forebay import Forebay
from forebay.errors import BadInput, NotFound
from forebay.ids import shown

_REMEDY = "Write module:app, as in `forebay worker mymodule:app`, or path/to/file.py:app."


def load(target: str) -> Forebay:
    """Import the module and return its application; what the module raises is passed on."""
    place, _, name = target.partition(":")
    if not place:
        raise BadInput(f"{shown(target)} names no application.", remedy=_REMEDY)
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    return _application(module, name)


def _application(module: ModuleType, name: str) -> Forebay:
    if name:
        found = getattr(module, name, None)
        if isinstance(found, Forebay):
            return found
        raise NotFound(f"{module.__name__} has no application {shown(name)}.", remedy=_REMEDY)
    found_all = {key: value for key, value in vars(module).items() if isinstance(value, Forebay)}
    if len(set(map(id, found_all.values()))) != 1:
        names = ", ".join(sorted(found_all)) or "none"
        raise BadInput(f"{module.__name__} has these applications: {names}.", remedy=_REMEDY)
    return next(iter(found_all.values()))


def _module(name: str) -> ModuleType:
    # As `python -m` does it: the folder where the command was given comes first.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NotFound(f"There is no module {shown(name)} here.", remedy=_REMEDY) from None


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(f"There is no file {shown(str(path))}.", remedy=_REMEDY)
    name = path.stem
    sys.path.insert(0, str(path.parent.absolute()))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{shown(str(path))} is not a Python file.", remedy=_REMEDY)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def locate(app: Forebay) -> str | None:
    """The target that loads this application in another process; None if it is not a module's own."""
    # The script that was started comes last: it may only have imported the application.
    modules = sorted(sys.modules.items(), key=lambda item: item[0] == "__main__")
    for module_name, module in modules:
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                place = _place(module_name, module)
                return place and f"{place}:{name}"
    return None


def _place(name: str, module: ModuleType) -> str | None:
    if name != "__main__":
        return name
    spec = module.__spec__  # of `python -m package.module`
    if spec is not None:
        return spec.name
    # A prompt, `python -c` and a script on stdin have no file that another process could load.
    file = Path(getattr(module, "__file__", None) or "")
    return str(file.absolute()) if file.suffix == ".py" and file.is_file() else None
