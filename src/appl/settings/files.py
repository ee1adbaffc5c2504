"""Settings from and to TOML. An unknown key, a wrong type or a bad value names itself."""

import tomllib
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_origin

import tomli_w
from cattrs import Converter, transform_error
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from appl.errors import SettingsError
from appl.settings.checks import suggest

S = TypeVar("S")


def _strict(kind: type) -> Any:
    def structure(value: Any, _: Any) -> Any:
        is_whole = kind is float and isinstance(value, int) and not isinstance(value, bool)
        # bool is an int in Python, and int("3") or bool("false") would pass in silence.
        if type(value) is not kind and not is_whole:
            raise TypeError(f"{value!r} is not {_WORDS[kind]}")
        return kind(value)

    return structure


def _is_choice(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_CONVERTER = Converter(forbid_extra_keys=True)
for _kind in _WORDS:
    _CONVERTER.register_structure_hook(_kind, _strict(_kind))
# Choices pass as they are: the group's own check names the nearest right one.
_CONVERTER.register_structure_hook_func(_is_choice, lambda value, _: value)


def load_settings(group: type[S], path: Path, table: str | None = None) -> S:
    """Read a settings group from a TOML file, or from one of its tables.

    A key `preset` names the preset whose values stand for the keys that are not given.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SettingsError(f"no settings file at {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    if table is not None:
        if not isinstance(values.get(table), dict):
            raise SettingsError(f"{path} has no table [{table}]")
        values = values[table]
    return structure_settings(group, values, str(path))


def structure_settings(group: type[S], values: dict[str, Any], where: str = "settings") -> S:
    """Build a settings group from plain values, on top of the preset they name."""
    values = dict(values)
    base: dict[str, Any] = {}
    find_preset = getattr(group, "preset", None)
    if callable(find_preset) and "preset" in values:
        name = values.pop("preset")
        if not isinstance(name, str):
            raise SettingsError(f"{where}: preset = {name!r} is not a text")
        found = find_preset(name)
        base = found if isinstance(found, dict) else asdict(found)
    _check_keys(group, values, where)
    try:
        return _CONVERTER.structure(_merged(base, values), group)
    except ClassValidationError as error:
        raise SettingsError(f"{where}: {_first_message(error)}") from error


def to_toml(settings: Any) -> str:
    """Write a settings group as TOML that `load_settings` reads back to the same group."""
    return tomli_w.dumps(asdict(settings))


def with_changes(settings: S, **changes: Any) -> S:
    """Return a copy with some fields changed, nested groups by their own dict."""
    nested = {
        key: with_changes(getattr(settings, key), **value)
        if isinstance(value, dict) and is_dataclass(getattr(settings, key))
        else value
        for key, value in changes.items()
    }
    return replace(settings, **nested)  # type: ignore[type-var]


def _check_keys(group: Any, values: dict[str, Any], where: str) -> None:
    known = {item.name: item for item in fields(group)}
    for key, value in values.items():
        if key not in known:
            raise SettingsError(
                f"{where}: unknown key {key!r} (value {value!r}); {suggest(key, list(known))}"
            )
        nested = known[key].type
        if is_dataclass(nested):
            if not isinstance(value, dict):
                raise SettingsError(
                    f"{where}: {key} = {value!r} must be a table of settings; write [{key}]"
                )
            _check_keys(nested, value, f"{where} [{key}]")


def _merged(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in values.items():
        old = result.get(key)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[key] = _merged(old, value) if both and old is not None else value
    return result


def _first_message(error: ClassValidationError) -> str:
    """Reduce cattrs' tree of errors to the first cause in one line."""
    cause: BaseException = error
    names: list[str] = []
    while isinstance(cause, ClassValidationError):
        cause = cause.exceptions[0]
        for note in getattr(cause, "__notes__", []):
            if getattr(note, "name", None):
                names.append(note.name)
    if isinstance(cause, SettingsError | ForbiddenExtraKeysError):
        return str(cause)
    if isinstance(cause, TypeError):
        return f"{'.'.join(names)}: {cause}"
    return transform_error(error)[0]


__all__ = ["load_settings", "structure_settings", "to_toml", "with_changes"]
