# SPDX-License-Identifier: GPL-2.0-only
"""Conversion of frozen dataclasses to and from JSON values, by their type annotations.

A run folder stores the resolved scenario in this form, so that the run can be judged again after the
scenario file or the catalogue has changed.
"""

import json
import reprlib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from lab.base.digest import WORDS, digest_bytes

T = TypeVar("T")


def to_plain(value: Any, wanted: Callable[[Field[Any], Any], bool] = lambda field, item: True) -> Any:
    """Dataclasses (of these the ``wanted`` fields), mappings with string keys, tuples, StrEnums, paths and scalars.

    Raises TypeError for another value.
    """
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_plain(item, wanted) for field, item in items if wanted(field, item)}
    if isinstance(value, Mapping):
        return {_key(key): to_plain(item, wanted) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item, wanted) for item in value]
    if isinstance(value, StrEnum | Path):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no plain form")


def meaning(value: Any) -> Any:
    """``to_plain`` without text fields and without fields that have their default value.

    A field added later with a default does not change the result for existing values.
    """
    return to_plain(value, lambda field, item: not WORDS.items() <= field.metadata.items() and item != _default(field))


def identity(value: Any) -> str:
    """SHA-256 of ``meaning(value)``. The order of mappings counts, because arms and settings run in it."""
    return digest_bytes(json.dumps(meaning(value), separators=(",", ":")).encode())


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def from_plain(kind: type[T], value: Any) -> T:
    """Inverse of ``to_plain`` for type ``kind``. Raises ValueError when ``value`` does not fit the type."""
    try:
        return _build(kind, value)  # type: ignore[no-any-return]
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


_hints = cache(get_type_hints)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} cannot be a key of JSON")
    return key


def _build(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (part,) = (part for part in get_args(kind) if part is not types.NoneType)
        return None if value is None else _build(part, value)
    if origin is tuple:
        return tuple(_build(get_args(kind)[0], item) for item in _a(list, value))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _build(get_args(kind)[1], item) for key, item in _a(dict, value).items()}
    if isinstance(kind, type) and is_dataclass(kind):
        hints, given = _hints(kind), _a(dict, value)
        return kind(**{name: _build(hints[name], item) for name, item in given.items()})
    if issubclass(kind, StrEnum | Path):
        return kind(_a(str, value))
    return float(value) if kind is float and type(value) is int else _a(kind, value)


def _a(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {reprlib.repr(value)}")
    return value
