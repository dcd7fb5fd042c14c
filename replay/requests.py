"""The body of a chat completion: the messages as they are, and what is asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson

LengthField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class Form:
    """How a server takes a request."""

    model: str
    length_field: LengthField = "max_tokens"
    forced: tuple[str, ...] = ()
    """Options by which it generates exactly the tokens asked for: `min_tokens`, `ignore_eos`."""
    usage: bool = True
    """Whether usage is asked for (`stream_options.include_usage`)."""

    def body(self, messages: Iterable[bytes], output_tokens: int) -> bytes:
        """The whole body; `messages` are pieces of a JSON array.

        The options stand after the messages, so that bodies of one conversation share their start.
        """
        options: dict[str, object] = {self.length_field: output_tokens}
        if "min_tokens" in self.forced:
            options["min_tokens"] = output_tokens
        if "ignore_eos" in self.forced:
            options["ignore_eos"] = True
        options["stream"] = True
        if self.usage:
            options["stream_options"] = {"include_usage": True}
        head = b'{"model":%b,"messages":' % orjson.dumps(self.model)
        return b"".join((head, *messages, b",", orjson.dumps(options)[1:]))
