"""Which values are looked for as secrets in everything that is kept. Pure.

Who runs a server of their own gives it `anthropic`, `lm-studio` or `not-needed` for a key. Such a
word stands in every body, in the names of its fields too: to mask it would hide nothing, and would
change what the body says. A key that guards something is no word, or is long.
"""

from __future__ import annotations

import re

from agentx.proxy_addons.providers import PROTOCOL_WORDS

MIN_SECRET = 8
"""Characters. Shorter ones open no door, and would mask common words."""
LONG = 20
"""Characters. A header's value of this length is a secret even where it is made of words."""

_LONGEST_NAME = 80

_WORD = r"(?:[a-z]+|[A-Z]+|[A-Z][a-z]+|[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})+)"
_PART = rf"(?:{_WORD}\d{{0,4}}[A-Za-z]?|\d{{1,8}}(?:[A-Za-z]\d{{0,4}}[A-Za-z]?)?)"
_PLAIN = re.compile(rf"{_PART}?(?:[-_./: ]{_PART}?)*")
"""Words, small numbers, dates and model names: `lm-studio`, `testKey1`, `gpt-4o-2024-08-06`."""


def is_secret(value: str) -> bool:
    """Whether the value of a header, a cookie or a parameter that holds a credential is one."""
    if len(value) < MIN_SECRET or (len(value) < LONG and _PLAIN.fullmatch(value)):
        return False
    return not any(value in word for word in PROTOCOL_WORDS)


def may_be_model(part: str) -> bool:
    """Whether a part of a path reads as a model's or a deployment's name, which may be long."""
    return len(part) <= _LONGEST_NAME and _PLAIN.fullmatch(part) is not None
