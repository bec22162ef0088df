"""Kaggle's competitions: rules, archives, pages and leaderboards, through Kaggle's own client."""

from __future__ import annotations

import csv
import io
import math
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_mlebench.authoring.archives import archive_errors, check_zip
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.download.transfers import (
    SETTINGS,
    Credentials,
    CredentialsError,
    Notebook,
    NotebookGone,
    RefusedError,
    RetryPolicy,
    Size,
    in_parallel,
    retry,
)
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import Note, Reporter, WarningNote, silent
from pytest_mlebench.io.units import pluralize

if TYPE_CHECKING:
    import requests
    from kagglesdk import KaggleClient
    from kagglesdk.competitions.types.competition_api_service import ApiCompetitionPage

    from pytest_mlebench.data.download.client import PartialFile


def _section(page: ApiCompetitionPage) -> str:
    """Convert a competition's page, in HTML or Markdown, to Markdown."""
    text = page.content
    if "markdown" not in page.mime_type:
        from markdownify import markdownify

        # Agents read the unrendered text: escaping would change column names.
        text = markdownify(text, heading_style="ATX", bullets="-", escape_underscores=False, escape_asterisks=False)
    return f"## {page.post_title or page.name.replace('-', ' ').capitalize()}\n\n{text.strip()}"


def read_scores(content: bytes) -> tuple[list[float], str]:
    """Return the scores of a downloaded leaderboard: a CSV file with a column Score, or a zip archive of one.

    Also returns the name of the file in the archive, or "". Teams without a score are left out. If an archive contains
    several leaderboards, the private one is read. Raises DataError.
    """
    file, unpacked = _unpack(content)
    table = csv.DictReader(io.StringIO(unpacked.decode("utf-8-sig", errors="replace"), newline=""))
    try:
        column = next((name for name in table.fieldnames or () if name.strip().lower() == "score"), None)
        if column is None:
            raise DataError(f"there is no column Score among {', '.join(table.fieldnames or ()) or 'no columns'}"[:200])
        return to_scores(row[column] or "" for row in table), file
    except csv.Error as error:
        raise DataError(f"it is not a table: {error}") from error


def to_scores(texts: Iterable[str]) -> list[float]:
    """Convert scores to numbers, in their order; teams without a score are left out. Raises DataError."""
    scores = []
    for number, text in enumerate(map(str.strip, texts), 1):
        if text:
            try:
                scores.append(float(text))
            except ValueError as error:
                raise DataError(f"team {number}: {text[:50]!r} is not a score") from error
    scores = list(filter(math.isfinite, scores))
    if not scores:
        raise DataError("it contains no scores")
    return scores


def _unpack(content: bytes) -> tuple[str, bytes]:
    if not content.startswith(b"PK"):
        return "", content
    with archive_errors("of the leaderboard"), zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
        private = [name for name in names if "private" in name.lower()]
        if len(private or names) != 1:
            raise DataError(f"the archive contains {len(names)} tables, not one: {', '.join(names)[:200]}")
        name = (private or names)[0]
        return name, archive.read(name)


T = TypeVar("T")

_PARALLEL = 8
_PAGE_SIZE = 200  # files or teams; Kaggle's maximum


@dataclass(eq=False)
class KaggleDownloads:
    """Downloads from Kaggle. Modules and credentials are loaded on first use.

    Instances are thread-safe. Every wait is reported to a method's ``reporter``.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> dataset = DataStore().prepare(default_catalogue()["smoke-digits"], downloads=KaggleDownloads())
    """

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    _credentials: Credentials | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def check(
        self, competitions: Sequence[Competition], *, skip_denied: bool = False, reporter: Reporter = silent
    ) -> dict[str, DataError]:
        """Check that competitions can be downloaded: credentials are valid, and each competition's rules are accepted.

        Raises DataError that lists everything that the user can fix, with links. Returns the errors, by id, of
        competitions that the user cannot make available, for example because they no longer exist. With
        ``skip_denied``, this includes competitions whose rules are not accepted.
        """
        stopped = threading.Event()

        def refusal(competition: Competition) -> RefusedError | None:
            try:
                self._archive_bytes(competition, reporter, stopped)
            except RefusedError as error:
                if error.status == 401:  # it applies to all competitions
                    raise
                return error
            return None

        self.credentials(reporter)
        refusals = list(zip(competitions, in_parallel(refusal, competitions, _PARALLEL, stopped), strict=True))
        denied = [(competition, error) for competition, error in refusals if error and error.status == 403]
        if denied and not skip_denied:
            others = "; `mlebench prepare --skip-denied` prepares the others" if len(denied) < len(competitions) else ""
            raise DataError(_in_one_message(denied) + others)
        return {competition.id: error for competition, error in refusals if error}

    def size(self, competition: Competition, reporter: Reporter = silent) -> Size:
        """Return the raw data's sizes, both the archive's if Kaggle does not list the files. Raises DataError."""
        archive = self._archive_bytes(competition, reporter)
        try:
            unpacked = self._unpacked_bytes(competition, reporter)
        except RefusedError as error:
            reporter(Note(f"{error}; the disk space is estimated from the archive"))
            unpacked = archive or 0
        return Size(download=archive or unpacked, unpacked=unpacked)

    def download(self, competition: Competition, target: Path, reporter: Reporter = silent) -> None:
        """Download the archive to ``target`` and verify it; reports its progress.

        A partial download (``target`` + ".part") is resumed. Raises DataError, and then keeps the partial download, or
        renames it to ``target`` + ".damaged" if it is damaged. All temporary files are in the same folder, and their
        names begin with the target's name.

        Kaggle sometimes repacks archives. If the archive is intact, an unexpected MD5 is therefore only a warning: the
        checksums of the prepared files decide.
        """
        from pytest_mlebench.data.download.client import PartialFile, transfer

        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{target.parent} cannot be written: {error.strerror}") from error
        with PartialFile(target.with_name(f"{target.name}.part")) as part:
            with self._advised(competition):
                request = partial(self._open, competition, reporter=reporter)
                transfer(request, part, self.policy, competition.id, reporter)
            _verify(competition, part, target, reporter)
            part.become(target)

    def description(self, competition: Competition, reporter: Reporter = silent) -> str:
        """Return Kaggle's pages as Markdown, data page last, without rules: they are not the task. Raises DataError."""
        request = _request("ApiListCompetitionPagesRequest", competition_name=competition.id)
        found = self._call(competition, lambda api: api.list_competition_pages(request).pages, reporter)
        if not found:
            raise DataError(f"{competition.id}: Kaggle has no pages for this competition; use the bundled description")
        pages = [page for page in found if page.name.lower() != "rules" and page.content.strip()]
        pages.sort(key=lambda page: page.name.lower() == "data-description")
        return "\n\n".join([f"# {competition.title}", *map(_section, pages)]) + "\n"

    def leaderboard(self, competition: Competition, reporter: Reporter = silent) -> list[float]:
        """Return the final scores of all teams on the private leaderboard. Raises DataError.

        The private leaderboard is read page by page, because the packed download may be the public one.
        Source: https://github.com/Kaggle/kaggle-cli/issues/731
        """
        request = _request("ApiGetLeaderboardRequest", competition_name=competition.id, page_size=_PAGE_SIZE)
        scores: list[str] = []
        try:
            while True:
                page = self._call(competition, lambda api: api.get_leaderboard(request), reporter)
                scores += [team.score for team in page.submissions]
                if not page.next_page_token:
                    break
                request.page_token = page.next_page_token
        except RefusedError as error:
            if error.status != 404:
                raise
            return self._packed_leaderboard(competition, reporter)
        try:
            return to_scores(scores)
        except DataError as error:
            raise DataError(f"{competition.id}: the leaderboard cannot be read: {error}") from error

    def _packed_leaderboard(self, competition: Competition, reporter: Reporter) -> list[float]:
        request = _request("ApiDownloadLeaderboardRequest", competition_name=competition.id)
        content = self._call(competition, lambda api: api.download_leaderboard(request).content, reporter)
        try:
            scores, file = read_scores(content)
        except DataError as error:
            raise DataError(f"{competition.id}: the leaderboard's download cannot be read: {error}") from error
        if "public" in file.lower():
            text = f"{competition.id}: {file} looks like the public leaderboard; medals need the private one"
            reporter(WarningNote(text))
        return scores

    def notebook(self, name: str, reporter: Reporter = silent) -> Notebook:
        """Return the notebook ``AUTHOR/SLUG``. Raises NotebookGone, CredentialsError, or DataError (try again)."""
        from kagglesdk.kernels.types.kernels_api_service import ApiGetKernelRequest

        request = ApiGetKernelRequest()
        request.user_name, _, request.kernel_slug = name.partition("/")

        def attempt() -> Any:
            with self._connected(reporter) as client:
                return client.kernels.kernels_api_client.get_kernel(request).blob

        try:
            blob = retry(attempt, self.policy, name, reporter)
        except RefusedError as error:
            if error.status == 401:
                raise CredentialsError(f"Kaggle answered 401: {error.message}; {self._not_accepted()}") from error
            raise NotebookGone(f"Kaggle answered {error.status}: {error.message}") from error
        if blob is None or not blob.source.strip():
            raise NotebookGone("it has no code")
        return Notebook(source=blob.source, kind=blob.kernel_type.lower(), language=blob.language.lower())

    def _not_accepted(self) -> str:
        return f"{self.credentials().source} is not accepted; get new credentials at {SETTINGS}"

    def credentials(self, reporter: Reporter = silent) -> Credentials:
        """Return the user's credentials, which are looked up once. Raises DataError that says how to get them."""
        from pytest_mlebench.data.download.client import find_credentials

        with self._lock:
            if self._credentials is None:
                self._credentials = retry(lambda: find_credentials(self.policy), self.policy, "Kaggle", reporter)
            return self._credentials

    def _archive_bytes(
        self, competition: Competition, reporter: Reporter, stopped: threading.Event | None = None
    ) -> int | None:
        """Return the archive's size, by requesting its first byte. This also checks access to the download."""

        def ask() -> int | None:
            with self._open(competition, {"Range": "bytes=0-0"}, reporter) as response:
                total = response.headers.get("Content-Range", "").rpartition("/")[2]
                length = total if response.status_code == 206 else response.headers.get("Content-Length", "")
                return int(length) if length.isdigit() else None

        with self._advised(competition):
            return retry(ask, self.policy, competition.id, reporter, stopped=stopped)

    @contextmanager
    def _open(
        self, competition: Competition, headers: Mapping[str, str], reporter: Reporter
    ) -> Iterator[requests.Response]:
        """Request the archive; redirects are followed, but the body is not read."""
        request = _request("ApiDownloadDataFilesRequest", competition_name=competition.id)
        with self._connected(reporter, headers) as client:
            response: requests.Response = client.competitions.competition_api_client.download_data_files(request)
            with response:
                yield response

    def _unpacked_bytes(self, competition: Competition, reporter: Reporter) -> int:
        request = _request("ApiListDataFilesRequest", competition_name=competition.id, page_size=_PAGE_SIZE)
        total = 0
        while True:
            page = self._call(competition, lambda api: api.list_data_files(request), reporter)
            total += sum(int(file.total_bytes) for file in page.files)
            if not page.next_page_token:
                return total
            # With hundreds of thousands of images, listing takes as long as a download.
            if not request.page_token and (summary := self._summary_bytes(competition, reporter)):
                return summary
            request.page_token = page.next_page_token

    def _summary_bytes(self, competition: Competition, reporter: Reporter) -> int:
        """Return the unpacked files' size from a single request; 0 if Kaggle has no summary."""
        request = _request("ApiGetCompetitionDataFilesSummaryRequest", competition_name=competition.id)
        try:
            summary = self._call(competition, lambda api: api.get_competition_data_files_summary(request), reporter)
        except RefusedError:
            return 0
        files = summary.file_summary_info
        return sum(int(kind.total_size) for kind in files.file_types) if files else 0

    def _connected(
        self, reporter: Reporter, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[KaggleClient]:
        from pytest_mlebench.data.download.client import connected

        return connected(self.credentials(reporter), self.policy, headers)

    def _call(self, competition: Competition, call: Callable[[Any], T], reporter: Reporter) -> T:
        """Call the API; temporary failures are retried."""

        def attempt() -> T:
            with self._connected(reporter) as client:
                return call(client.competitions.competition_api_client)

        with self._advised(competition):
            return retry(attempt, self.policy, competition.id, reporter)

    @contextmanager
    def _advised(self, competition: Competition) -> Iterator[None]:
        """Add advice for the user to a RefusedError."""
        if competition.source != "kaggle":
            raise DataError(f"{competition.id} is not on Kaggle: its data is bundled")
        try:
            yield
        except RefusedError as error:
            advice = {
                401: self._not_accepted(),
                403: f"have you accepted the competition's rules? {_rules(competition)}",
                404: f"this competition is not, or no longer, on Kaggle: {competition.url}",
            }.get(error.status, f"see {competition.url}")
            raise RefusedError(error.status, error.message, advice, competition.id) from error


def _request(kind: str, **fields: Any) -> Any:
    """Create a request object of the client's API."""
    request = getattr(import_module("kagglesdk.competitions.types.competition_api_service"), kind)()
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def _rules(competition: Competition) -> str:
    return f"https://www.kaggle.com/c/{competition.id}/rules"


def _in_one_message(denied: Sequence[tuple[Competition, RefusedError]]) -> str:
    reasons = " / ".join(sorted({error.message for _, error in denied}))
    what = f"access to the data of {pluralize(len(denied), 'competition')}"
    problem = f"Kaggle denies {what}: {reasons}: accept the rules on these pages, then call again"
    hint = "if a page has no button to accept, try the competition's data page"
    return "\n  ".join([problem, *(_rules(competition) for competition, _ in denied), hint])


def _verify(competition: Competition, part: PartialFile, target: Path, reporter: Reporter) -> None:
    """Check that the archive is complete; otherwise raises DataError and renames it."""
    expected = competition.checksums.get("zip")
    if part.md5 == expected:
        return
    try:
        if part.server_md5 and part.server_md5 != part.md5:
            raise DataError("its md5 differs from the server's")
        if not part.server_md5:
            check_zip(part.path)
    except DataError as error:
        damaged = target.with_name(f"{target.name}.damaged")
        part.become(damaged)
        raise DataError(
            f"{competition.id}: the archive is damaged ({error}): {damaged}: expected md5 "
            f"{part.server_md5 or expected or 'unknown'}, found {part.md5}; remove this file and call again to "
            "download a new copy"
        ) from error
    if expected is not None:
        reporter(
            WarningNote(
                f"{competition.id}: {target} is complete, but not the known archive (expected md5 {expected}, found "
                f"{part.md5}): Kaggle may have repacked it. The checksums of the prepared files decide"
            )
        )
