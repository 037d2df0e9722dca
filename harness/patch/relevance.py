# SPDX-License-Identifier: GPL-2.0-only
"""How much the words of a change are those of a scenario: its file, and what its mutants change.

The measure is that of text search: the cosine of word counts, logarithmic and weighted by how few scenarios have the
word (tf-idf, Salton and Buckley 1988). ``tests/vm/test_choice_real.py`` scores it on mutants whose
scenario is known.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt

from harness.scenario.model import Scenario

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
_CHANGED = re.compile(r"^(?:[+-](?![+-])(.*)|@@[^@]*@@(.*))$", re.MULTILINE)
_SUBJECT = re.compile(r"^(?:Subject|Mutant): *(.*)$", re.MULTILINE)
_SUBJECTS = 3
"""A subject says in few words what the lines do."""
_SHORT = 3


def relevances(change: str, scenarios: Sequence[Scenario], patches: Mapping[str, str]) -> Mapping[str, float]:
    """For each scenario by name a figure from 0: the words of ``change`` in it. ``patches`` are those of mutants."""
    texts = {each.name: _counts(each.path.read_text(), *_of_mutants(each, patches)) for each in scenarios}
    among = Counter(word for words in texts.values() for word in words)
    rarity = {word: log((len(texts) + 1) / count) for word, count in among.items()}
    asked = _counts(*_changed(change), *_SUBJECT.findall(change) * _SUBJECTS)
    return {name: _cosine(asked, words, rarity) for name, words in texts.items()}


def _of_mutants(scenario: Scenario, patches: Mapping[str, str]) -> list[str]:
    names = sorted({control.mutant for control in scenario.controls if control.mutant})
    return [line for name in names for line in _changed(patches.get(name, ""))]


def _changed(patch: str) -> list[str]:
    return [line or head for line, head in _CHANGED.findall(patch)]


def _counts(*texts: str) -> Counter[str]:
    """The words of the texts and the parts of those with ``_`` or ``-``, without case and the plural's s."""
    counts = Counter[str]()
    for text in texts:
        for match in _WORD.finditer(text):
            word = match[0].lower().replace("-", "_")
            parts = [part for part in word.split("_") if len(part) >= _SHORT]
            counts.update(part.removesuffix("s") for part in ([word, *parts] if "_" in word else parts))
    return counts


def _cosine(asked: Mapping[str, int], words: Mapping[str, int], rarity: Mapping[str, float]) -> float:
    """The length of ``asked`` is the same for all scenarios and left out."""

    def weight(counts: Mapping[str, int], word: str) -> float:
        return (1 + log(counts[word])) * rarity[word]

    length = sqrt(sum(weight(words, word) ** 2 for word in words))
    return sum(weight(asked, word) * weight(words, word) for word in asked.keys() & words.keys()) / length
