"""JSON from outside: read strictly where possible, and taken apart without trust.

Agents send what a strict parser refuses (half a surrogate pair, cut by a length limit in
JavaScript), so that such a body is mended and read again rather than lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

_ESCAPES = re.compile(
    rb"\\\\"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}(/[A-Za-z_][A-Za-z0-9_-]{0,127})?")
_PUBLISHER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MODEL = re.compile(
    r"(?!arn:)(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}"
    r"(@[A-Za-z]{0,3}[0-9][A-Za-z0-9_.-]{0,63}|@default|@latest)?"
)
"""One level of a model's name; what may follow an `@` is a version, not a host."""
_FILE = re.compile(r"\.(gguf|ggml|safetensors|bin|pth?|onnx|engine|mlx)$", re.IGNORECASE)
_MAX_PATH = 1000


def parse_json(data: bytes) -> Any:
    """The value of a JSON text; a lone surrogate in it counts as U+FFFD.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        mended = _mend(data)
        if mended == data:
            raise
    return orjson.loads(mended)


def _mend(data: bytes) -> bytes:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = _SURROGATES.sub("\ufffd", data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
        data = text.encode("utf-8")
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], data)


def as_dict(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def dicts(value: object) -> Iterator[dict[str, Any]]:
    """The objects of a list."""
    return (entry for entry in as_list(value) if isinstance(entry, dict))


def as_str(value: object) -> str | None:
    """The value if it is a string."""
    return value if isinstance(value, str) else None


def as_count(value: object) -> int | None:
    """The value if it is a number of tokens: a whole one, not below 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 52 else None


def as_word(value: object) -> str | None:
    """The value if it is one identifier (a stop reason, an error's class); prose, numbers, paths
    and addresses are none, so that nothing a server says reaches a data set by this way."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def as_tool_name(value: object) -> str | None:
    """The value if it is a tool's name, `server/tool` at most; paths and addresses are none."""
    return value if isinstance(value, str) and _TOOL.fullmatch(value) else None


def as_model(value: object) -> str | None:
    """A model's name, `publisher/model` at most.

    Of a path, a URL or a longer name its last part is kept, if it has a digit in it, as models'
    names have and people's have not: that does not tell where it lies, nor on which host or whose
    account. Of a fine-tuned model's name (`ft:BASE:ORGANISATION:…`) the base is.
    """
    if not isinstance(value, str) or len(value) > _MAX_PATH:
        return None
    parts = value.replace("\\", "/").rstrip("/").split("/")
    *publisher, name = parts
    if name.startswith("ft:"):
        name = ":".join(name.split(":")[:2])
    if not _MODEL.fullmatch(name):
        return None
    if not publisher:
        return name
    if len(publisher) == 1 and _PUBLISHER.fullmatch(publisher[0]) and not _FILE.search(name):
        return f"{publisher[0]}/{name}"
    return name if any(map(str.isdigit, name)) else None
