"""Plagiarism: finds code of notebooks and other runs in an agent's code, by fingerprints (see ``audit.fingerprints``).

``docs/trust.md`` says what is compared with what, and which pairs are reported. Runs of one agent are not compared with
each other, because its seeds are expected to be similar. A pair of two runs is never a violation, because both agents
may have copied the same source, or use the same model.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pytest_mlebench.extras.audit.fingerprints import LANGUAGES, Fingerprinter, Fingerprints, Parameters
from pytest_mlebench.extras.audit.kernels import MAX_BYTES, Kernels
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.io.files import regular_bytes
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.results.findings import Finding, NotebooksRead, PlagiarismAccount, Verdict

SCANNER = "plagiarism"
NEAR_TOTAL = 0.9
LARGE = 1000
"""Characters of tokens from which a copy is a program, not a snippet: about 60 lines."""
MAX_FILES, MAX_CHARACTERS, _MAX_FAILED = 200, 4 << 20, 3
"""Limits for one run: programs that are compared, their characters, and failures before the rest is skipped."""
_MAX_PAIRS, _MAX_PASSAGES, _MAX_LINES, _MAX_LINE = 20, 12, 200, 300
_GAP = 60
"""Characters of tokens that may differ within a passage."""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Lines that two programs share: the first and last line number in each, and the text."""

    lines: tuple[int, int]
    other_lines: tuple[int, int]
    text: str
    other_text: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A program and what it resembles: a notebook (``AUTHOR/SLUG``) or a program of another run.

    ``share`` is the part of the program that is in the other one, ``other_share`` the reverse.
    """

    run_id: str
    agent: str
    competition_id: str
    file: str
    kind: str
    """``notebook`` or ``run``."""
    other: str
    other_file: str
    share: float
    other_share: float
    size: int
    """Number of shared characters of tokens."""
    passages: tuple[Passage, ...]

    @property
    def verdict(self) -> Verdict:
        near = self.kind == "notebook" and self.share >= NEAR_TOTAL and self.size >= LARGE
        return Verdict.violation if near else Verdict.look


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """All pairs of a group above the threshold, the most similar first."""

    parameters: Parameters
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, eq=False)
class _Document:
    """A program with its fingerprints. ``owner`` is a run id, or a notebook's name if ``agent`` is empty."""

    owner: str
    agent: str
    file: str
    prints: Fingerprints
    places: Mapping[int, Sequence[int]]
    """Positions of the fingerprints, without those that are ignored."""
    size: int
    group: str = ""


@dataclass
class _Documents:
    """All programs of one competition that are compared."""

    audited: list[_Document] = field(default_factory=list)
    others: list[_Document] = field(default_factory=list)
    notebooks: list[_Document] = field(default_factory=list)


class Comparison:
    """Collects runs one by one, and compares them at the end.

    ``notebooks`` returns the state of a competition's notebooks, ``scaffold`` the files of an agent's own folder, which
    are ignored in its code. The files of ``shared`` are ignored in all code.
    """

    def __init__(
        self,
        fingerprinter: Fingerprinter,
        notebooks: Callable[[str], Kernels | None],
        scaffold: Callable[[str], Iterable[Path]],
        shared: Iterable[Path] = (),
    ) -> None:
        self.parameters = fingerprinter.parameters
        self._fingerprinter = fingerprinter
        self._notebooks, self._scaffold = notebooks, scaffold
        self._shared_files = tuple(shared)
        self._by_competition: defaultdict[str, _Documents] = defaultdict(_Documents)
        self._ignored: dict[str, frozenset[int]] = {}
        self._known: dict[str, Fingerprints | None] = {}
        self._runs: list[str] = []
        self._without_code: list[str] = []
        self._not_compared: list[str] = []

    def add(self, run: AuditedRun, *, group: str = "") -> None:
        """Add a run to audit or, with the name of another ``group``, a run to compare with."""
        record = run.record
        found = list(self._documents(run, group))
        documents = self._by_competition[record.competition_id]
        (documents.others if group else documents.audited).extend(found)
        if not group:
            self._runs.append(record.run_id)
            if not found:
                self._without_code.append(record.run_id)

    def __call__(self) -> tuple[tuple[Finding, ...], Pairs, PlagiarismAccount]:
        """Return the findings, all pairs, and an account of the comparison."""
        pairs: list[Pair] = []
        read: dict[str, NotebooksRead] = {}
        for id, documents in sorted(self._by_competition.items()):
            if documents.audited:
                read[id] = self._read_notebooks(id, documents)
                pairs += _pairs(id, documents, self.parameters)
        pairs.sort(key=lambda pair: -max(pair.share, pair.other_share))
        account = PlagiarismAccount(
            **asdict(self.parameters),
            runs=tuple(self._runs),
            without_code=tuple(self._without_code),
            not_compared=tuple(self._not_compared),
            notebooks=read,
            groups=tuple(sorted({d.group for documents in self._by_competition.values() for d in documents.others})),
            pairs=dict(Counter(pair.run_id for pair in pairs)),
        )
        return tuple(_findings(pairs)), Pairs(parameters=self.parameters, pairs=tuple(pairs)), account

    def _documents(self, run: AuditedRun, group: str) -> Iterator[_Document]:
        record = run.record
        ignored = self._ignored_of(record.agent)
        left, failed, seen = MAX_CHARACTERS, 0, set()
        programs = [p for p in run.code if Path(p.file).suffix.lower() in LANGUAGES and p.text.strip()]
        for number, program in enumerate(programs):
            left -= len(program.text)
            if number >= MAX_FILES or left < 0 or failed >= _MAX_FAILED:
                self._not_compared.append(f"{record.run_id}/{program.file}")
                continue
            if (digest := _digest(program.text)) in seen:  # a copy of another file of the run
                continue
            seen.add(digest)
            prints = self._prints(program.text, Path(program.file).suffix.lower())
            if prints is None:
                failed += 1
                self._not_compared.append(f"{record.run_id}/{program.file}")
            elif document := self._document(record.run_id, record.agent, program.file, prints, ignored, group):
                yield document

    def _document(
        self, owner: str, agent: str, file: str, prints: Fingerprints, ignored: frozenset[int], group: str = ""
    ) -> _Document | None:
        places = {hash: where for hash, where in prints.places.items() if hash not in ignored}
        size = _covered((place for where in places.values() for place in where), self.parameters.kgram)
        if size < self.parameters.least:
            return None
        return _Document(owner, agent, file, prints, places, size, group)

    def _prints(self, text: str, suffix: str, *, raw: bool = False) -> Fingerprints | None:
        """Return the fingerprints of a text, which are computed once."""
        key = _digest(f"{suffix} {raw} {text}")
        if key not in self._known:
            self._known[key] = self._fingerprinter(text, suffix, raw=raw)
        return self._known[key]

    def _ignored_of(self, agent: str) -> frozenset[int]:
        """Return the fingerprints of an agent's scaffold and of the shared files."""
        name = agent.split("/")[0]
        if name not in self._ignored:
            found: set[int] = set()
            for path in (*self._scaffold(name), *self._shared_files):
                suffix = path.suffix.lower() if path.suffix.lower() in LANGUAGES else ".py"
                if (text := _text(path)) is not None and (prints := self._prints(text, suffix, raw=True)) is not None:
                    found |= prints.places.keys()
            self._ignored[name] = frozenset(found)
        return self._ignored[name]

    def _read_notebooks(self, id: str, documents: _Documents) -> NotebooksRead:
        here = self._notebooks(id)
        if here is None:
            return NotebooksRead(listed=0, compared=0, gone=0, missing=0)
        shared = self._ignored_of("")
        unread = 0
        for name, path in here.files.items():
            text = _text(path)
            prints = None if text is None else self._prints(text, path.suffix.lower(), raw=True)
            unread += prints is None
            if prints is not None and (document := self._document(name, "", path.name, prints, shared)):
                documents.notebooks.append(document)
        return NotebooksRead(
            listed=len(here.listed),
            compared=len(here.files) - unread,
            gone=len(here.gone),
            missing=len(here.missing),
            unread=unread,
        )


def _text(path: Path) -> str | None:
    with suppress(OSError, ValueError):
        return regular_bytes(path, MAX_BYTES, follow_links=False).decode("utf-8", "replace")
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _covered(places: Iterable[int], kgram: int) -> int:
    """Count the characters in the union of ``[place, place + kgram)``."""
    total, end = 0, -1
    for place in sorted(places):
        total += place + kgram - max(place, end)
        end = place + kgram
    return total


def _pairs(id: str, documents: _Documents, parameters: Parameters) -> Iterator[Pair]:
    """Yield the pairs of one competition above the threshold.

    An index of fingerprints finds candidates, so that programs that share little are never compared.
    """
    against = [*documents.notebooks, *documents.audited, *documents.others]
    index: defaultdict[int, list[int]] = defaultdict(list)
    for number, document in enumerate(against):
        for hash in document.places:
            index[hash].append(number)
    for document in documents.audited:
        shared: Counter[int] = Counter()
        for hash in document.places:
            shared.update(index[hash])
        found = []
        for number, count in shared.items():
            other = against[number]
            # Fingerprints are unevenly spaced, so half of the expected number is a safe lower bound.
            enough = 2 * count >= parameters.threshold * min(len(document.places), len(other.places))
            if other.agent != document.agent and enough and (pair := _pair(id, document, other, parameters)):
                found.append((pair, other))
        found.sort(key=lambda one: -max(one[0].share, one[0].other_share))
        best: dict[tuple[str, str], Pair] = {}
        for pair, other in found:
            if (pair.kind, pair.other) not in best:
                passages = tuple(_passages(document, other, parameters.kgram))
                best[pair.kind, pair.other] = replace(pair, passages=passages)
            if len(best) >= _MAX_PAIRS:
                break
        yield from best.values()


def _pair(id: str, document: _Document, other: _Document, parameters: Parameters) -> Pair | None:
    common = document.places.keys() & other.places.keys()
    size = _covered((place for hash in common for place in document.places[hash]), parameters.kgram)
    other_size = _covered((place for hash in common for place in other.places[hash]), parameters.kgram)
    share, other_share = size / document.size, other_size / other.size
    if max(share, other_share) < parameters.threshold or min(size, other_size) < parameters.least:
        return None
    return Pair(
        run_id=document.owner,
        agent=document.agent,
        competition_id=id,
        file=document.file,
        kind="run" if other.agent else "notebook",
        other=f"{other.group}/{other.owner}" if other.group else other.owner,
        other_file=other.file,
        share=round(share, 4),
        other_share=round(other_share, 4),
        size=size,
        passages=(),
    )


def _passages(document: _Document, other: _Document, kgram: int) -> list[Passage]:
    """Return the longest passages that two programs share, in the order of the first program."""
    common = document.places.keys() & other.places.keys()
    # A frequent hash does not tell which of its places was copied.
    matches = sorted((a, b) for hash in common for a in document.places[hash][:3] for b in other.places[hash][:3])
    chains: list[list[tuple[int, int]]] = []
    open_chains: list[list[tuple[int, int]]] = []
    for a, b in matches:
        open_chains = [chain for chain in open_chains if a - chain[-1][0] <= kgram + _GAP][-20:]
        for chain in open_chains:
            if 0 < b - chain[-1][1] <= kgram + _GAP and a > chain[-1][0]:
                chain.append((a, b))
                break
        else:
            chains.append([(a, b)])
            open_chains.append(chains[-1])
    chains.sort(key=lambda chain: -len(chain))
    lines, other_lines = document.prints.text.split("\n"), other.prints.text.split("\n")
    found: list[Passage] = []
    used: set[int] = set()
    for chain in chains:
        where = _lines([document.prints.lines[a] for a, _ in chain])
        there = _lines([other.prints.lines[b] for _, b in chain])
        if used.issuperset(range(where[0], where[1] + 1)):
            continue
        used.update(range(where[0], where[1] + 1))
        found.append(
            Passage(lines=where, other_lines=there, text=_cut(lines, where), other_text=_cut(other_lines, there))
        )
        if len(found) >= _MAX_PASSAGES:
            break
    return sorted(found, key=lambda passage: passage.lines)


def _lines(places: Iterable[tuple[int, int]]) -> tuple[int, int]:
    firsts, lasts = zip(*places, strict=True)
    return min(firsts), max(lasts)


def _cut(lines: Sequence[str], where: tuple[int, int]) -> str:
    chosen = lines[where[0] - 1 : where[1]]
    kept = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…" for line in chosen[:_MAX_LINES]]
    if len(chosen) > _MAX_LINES:
        kept.append(f"… {pluralize(len(chosen) - _MAX_LINES, 'more line')}")
    return "\n".join(kept)


def _findings(pairs: Iterable[Pair]) -> Iterator[Finding]:
    for pair in pairs:
        what = f"the public notebook {pair.other}" if pair.kind == "notebook" else f"the code of run {pair.other}"
        text = f"{_percent(pair.share)} of it is in {what}"
        if pair.other_share >= NEAR_TOTAL:
            text += f", and it has {_percent(pair.other_share)} of that"
        first = max(pair.passages, key=lambda passage: len(passage.text), default=None)
        yield Finding(
            run_id=pair.run_id,
            scanner=SCANNER,
            verdict=pair.verdict,
            text=text[:300],
            file=pair.file[:300],
            line=None if first is None else first.lines[0],
            quote="" if first is None else first.text.strip().split("\n")[0][:200],
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
