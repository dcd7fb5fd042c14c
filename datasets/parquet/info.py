"""What a data set says of itself: agentx.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import orjson

from agentx import __version__
from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet.schema import FORMAT_VERSION

INFO_FILE = "agentx.json"
_MAX_INFO_BYTES = 1 << 20

HashScope: TypeAlias = Literal["local", "global", "dataset"]
"""Where block integers may be shared: within a session; between the sessions of a source that
says so; between all sessions of a data set that was built with one key."""

PublishLevel: TypeAlias = Literal["shapes", "synthetic", "content"]
"""How much of the text a data set holds: none, none but made-up text, the scrubbed text."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a data set holds; the writer counts."""

    sessions: int = 0
    agents: int = 0
    subagents: int = 0
    requests: int = 0
    blocks: int = 0
    """Distinct block integers: 0 … blocks − 1."""
    segments: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was left out for one reason."""

    count: int
    what: str
    """What was counted: `files`, `sessions`, `requests`, `exchanges`."""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """The content of agentx.json. It names no path, no host and no time."""

    block_size: int
    hash_scope: HashScope
    tokenizer: str | None = None
    """Vocabulary of our own counts; None where the counts are an import's."""
    publish_level: PublishLevel = "shapes"
    provenance: Mapping[str, str] = field(default_factory=dict)
    """`format` (what it was made from), `licence` (the source's, where known), …"""
    dropped: Mapping[str, Dropped] = field(default_factory=dict)
    """By reason."""
    counts: Counts = Counts()
    format_version: int = FORMAT_VERSION
    agentx_version: str = __version__

    def to_json(self) -> bytes:
        """The file's bytes."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_info(folder: Path) -> DatasetInfo:
    """Read a data set's agentx.json.

    Raises:
        DatasetError: there is none, it is of a newer version, or it is damaged.
    """
    path = folder / INFO_FILE
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_INFO_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        what = "is no data set" if folder.exists() else "does not exist"
        raise DatasetError(
            f"{folder} {what} (no {INFO_FILE} there); "
            "make one with 'agentx import' or 'agentx build'"
        ) from None
    try:
        if len(data) > _MAX_INFO_BYTES:
            raise ValueError("it is too large")
        return _parse(orjson.loads(data), folder)
    except DatasetError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{path} is damaged ({error}); write the data set again") from None


def _parse(document: Any, folder: Path) -> DatasetInfo:
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")
    version = _count(document, "format_version")
    if version > FORMAT_VERSION:
        raise DatasetError(
            f"{folder} has format version {version} and this AgentX ({__version__}) reads up to "
            f"{FORMAT_VERSION}; install a newer agentx-replay"
        )
    tokenizer = document.get("tokenizer")
    if tokenizer is not None and not isinstance(tokenizer, str):
        raise ValueError("tokenizer is no string")
    block_size = _count(document, "block_size")
    if not 1 <= block_size <= 1 << 20:
        raise ValueError(f"block_size is {block_size}")
    counts = _object(document, "counts")
    return DatasetInfo(
        block_size=block_size,
        hash_scope=_choice(document, "hash_scope", HashScope),
        tokenizer=tokenizer,
        publish_level=_choice(document, "publish_level", PublishLevel),
        provenance={str(k): str(v) for k, v in _object(document, "provenance").items()},
        dropped={
            str(reason): Dropped(_count(entry, "count"), str(entry["what"]))
            for reason, entry in _object(document, "dropped").items()
        },
        counts=Counts(**{item.name: _count(counts, item.name) for item in fields(Counts)}),
        format_version=version,
        agentx_version=str(document.get("agentx_version", "")),
    )


def _object(document: Any, key: str) -> dict[Any, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is no object")
    return value


def _count(document: Any, key: str) -> int:
    value = document.get(key) if isinstance(document, dict) else None
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{key} is no count")
    return value


def _choice(document: Any, key: str, choices: Any) -> Any:
    value = document.get(key)
    if value not in get_args(choices):
        raise ValueError(f"{key} is {value!r}")
    return value
