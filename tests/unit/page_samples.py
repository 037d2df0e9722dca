# SPDX-License-Identifier: GPL-2.0-only
"""Runs for pages, with names and messages that try to be markup, and a reader of what came out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from harness.record.judging import judge_run
from harness.record.store import KernelFacts, RunFolder, Store, planned, save_boot
from harness.scenario.model import Arm, Reproduction
from lab.base.record import Outcome
from tests.unit.analysis_samples import SHARE, claim, control, scenario
from tests.unit.store_samples import facts, files, record

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
_VOID = {"meta", "link", "br", "img", "hr", "input", "path", "rect", "circle", "use"}


def page_run(
    root: Path,
    shares: Mapping[str, float] = {"none": 95, "red": 5},
    *,
    hostile: str = "",
    release: str = "6.1.0-18-amd64",
) -> RunFolder:
    """A judged run under three seeds; ``hostile`` text is in every free text, and one boot died."""
    model = scenario([replace(claim(), that=f"kept {hostile}")], [control()], list(shares))
    model = replace(
        model, title=f"A sample {hostile}", teaches=hostile, reproduces=(Reproduction("as told", SHARE, 0.9),)
    )
    if hostile:
        model = replace(model, arms={name: _hostile(arm, hostile) for name, arm in model.arms.items()})
    cells = planned([(arm, seed, ()) for seed in (1, 2, 3) for arm in shares])
    series = ".".join(release.split(".")[:2])
    of = KernelFacts(f"debian:{series}", release + hostile, f"Debian {hostile}", "k" * 64)
    run = Store(root).new_run(model, replace(facts(model, cells), kernel=of))
    for number, cell in enumerate(cells):
        measured = {**files(together=shares[cell.arm] + cell.seed)}
        died = Outcome.OOPS if hostile and number == len(cells) - 1 else Outcome.BYE
        save_boot(replace(record(run.fresh_boot_folder(cell), measured, died), detail=hostile))
    run.finish(judge_run(run), elapsed=1.0)
    return run


def _hostile(arm: Arm, text: str) -> Arm:
    hbas = {name: replace(hba, model=text) for name, hba in arm.topology.hbas.items()}
    return replace(arm, topology=replace(arm.topology, title=text, hbas=hbas), settings={text: text}, teaches=text)


class Page(HTMLParser):
    """What a page holds, and in ``wrong`` what does not close as it should."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.elements: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.targets: list[str] = []
        self.headings: list[int] = []
        self.handlers: list[str] = []
        self.wrong: list[str] = []
        self.text, self.source = "", text
        self.feed(text)
        self.close()
        self.wrong += [f"<{name}> is not closed" for name in self.opened]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self._note(tag, dict(attrs))
        if tag not in _VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self._note(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.opened or self.opened.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} closes something else")

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] not in ("style", "script"):
            self.text += data

    def _note(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        if tag[0] == "h" and tag[1:].isdigit():
            self.headings.append(int(tag[1:]))
        self.handlers += [name for name in attributes if name.startswith("on")]
        self.ids.update([attributes["id"] or ""] if "id" in attributes else [])
        self.targets += [value for name in ("href", "src", "xlink:href") if (value := attributes.get(name))]

    def lacking(self) -> Iterator[str]:
        """Anchors that lead nowhere, ids that are there twice, headings that skip a level."""
        yield from (target for target in self.targets if target.startswith("#") and target[1:] not in self.ids)
        yield from (name for name, count in self.ids.items() if count > 1)
        for before, after in zip(self.headings, self.headings[1:], strict=False):
            if after > before + 1:
                yield f"h{after} below h{before}"
