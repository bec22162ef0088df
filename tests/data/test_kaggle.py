"""Kaggle's real client with a local server for its API."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import urllib3

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import md5
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.download.transfers import RetryPolicy, Size
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import Event, Step, WarningNote
from pytest_mlebench.io.units import format_size
from tests.kaggle_server import Cut, KaggleServer, Served, Stall, Status, zip_bytes

ID = "some-competition"
QUICK = RetryPolicy(attempts=4, delay=0.01, stall=0.5)
FILES = {
    "train.csv": random.Random(1).randbytes(400_000),
    "test.csv": random.Random(2).randbytes(100_000),
    "readme.txt": b"text " * 1000,
}


def make_competition(folder: Path, id: str = ID, **values: object) -> Competition:
    (folder / id).mkdir()
    leaderboard = {"teams": 1, "gold": 1, "silver": 1, "bronze": 1, "median": 1}
    required = {"id": id, "title": "Some", "split": "low", "category": "c", "metric": "m", "direction": "higher"}
    content = {**required, "leaderboard": leaderboard, **values}
    (folder / id / "competition.yaml").write_text(json.dumps(content))
    (folder / id / "description.md").write_text("The task.")
    return Competition.load(folder / id)


@pytest.fixture
def served(kaggle_server: KaggleServer) -> Served:
    return kaggle_server.add(ID, FILES)


@pytest.fixture
def competition(tmp_path: Path, served: Served) -> Competition:
    return make_competition(tmp_path, checksums={"zip": md5(served.archive)})


@pytest.fixture
def downloads(kaggle_server: KaggleServer) -> KaggleDownloads:
    return KaggleDownloads(QUICK)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "archive.zip"


class Watch:
    """A reporter that stores its events: bytes so far and in total, and the texts of notes and warnings."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None]] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Step):
            assert (event.subject, event.activity) == (ID, "downloading")
            self.seen.append((event.done, event.total))
        else:
            (self.warnings if isinstance(event, WarningNote) else self.notes).append(event.text)


def leftovers(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir() if path != target)


def test_an_archive_arrives_with_progress(
    downloads: KaggleDownloads, competition: Competition, served: Served, target: Path
) -> None:
    watch = Watch()
    downloads.download(competition, target, watch)
    assert target.read_bytes() == served.archive and leftovers(target) == []
    size = len(served.archive)
    assert (
        watch.seen[0] == (0, None)
        and watch.seen[-1] == (size, size)
        and watch.seen == sorted(watch.seen, key=lambda s: s[0])
    )


def test_after_a_cut_only_the_rest_is_requested(
    downloads: KaggleDownloads, competition: Competition, served: Served, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", Cut(0.4))
    downloads.download(competition, target, Watch())
    assert target.read_bytes() == served.archive
    first, second = kaggle_server.asked("archive")
    assert first.range is None and second.status == 206
    # the unfinished last block is sent again
    start = int((second.range or "").removeprefix("bytes=").removesuffix("-"))
    assert 0 <= first.sent - start <= 1 << 16 and first.sent == int(0.4 * len(served.archive))
    assert second.sent == len(served.archive) - start


def test_another_process_continues_where_the_last_was_killed(
    competition: Competition, served: Served, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.bytes_per_second = 500_000
    program = (
        "import sys, pathlib\n"
        "from pytest_mlebench.catalog import Competition\n"
        "from pytest_mlebench.data.download.kaggle import KaggleDownloads\n"
        "competition = Competition.load(pathlib.Path(sys.argv[1]))\n"
        "KaggleDownloads().download(competition, pathlib.Path(sys.argv[2]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(competition.folder), str(target)])
    part = target.with_name("archive.zip.part")
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    there = part.stat().st_size
    assert 100_000 < there < len(served.archive) and not target.exists()
    kaggle_server.bytes_per_second = None
    watch = Watch()
    KaggleDownloads(QUICK).download(competition, target, watch)
    assert target.read_bytes() == served.archive
    assert watch.seen[0] == (there, len(served.archive))
    last = kaggle_server.asked("archive")[-1]
    assert last.range == f"bytes={there}-" and last.sent == len(served.archive) - there


@pytest.mark.parametrize("fault", [Stall(0.4), Stall(0.0)])
def test_a_request_to_a_stalled_server_is_retried(
    fault: Stall, downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", fault)
    downloads.download(competition, target, Watch())
    assert md5(target) == competition.checksums["zip"] and len(kaggle_server.asked("archive")) == 2


@pytest.mark.parametrize("endpoint", ["DownloadDataFiles", "archive"])
@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_a_temporary_failure_is_retried_and_every_wait_is_reported(
    endpoint: str,
    code: int,
    downloads: KaggleDownloads,
    competition: Competition,
    target: Path,
    kaggle_server: KaggleServer,
) -> None:
    kaggle_server.script(endpoint, Status(code), Status(code))
    watch = Watch()
    downloads.download(competition, target, watch)
    assert [note.partition("; trying again in ")[0] for note in watch.notes] == [f"{ID}: Kaggle answered {code}"] * 2
    assert [note.partition(" (")[2] for note in watch.notes] == ["attempt 2 of 4)", "attempt 3 of 4)"]
    assert md5(target) == competition.checksums["zip"] and len(kaggle_server.asked(endpoint)) == 3


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(
    form: str, downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    # A date has whole seconds: three from now are more than two.
    header = "2" if form == "seconds" else formatdate(time.time() + 3, usegmt=True)
    kaggle_server.script("DownloadDataFiles", Status(429, retry_after=header))
    start = time.monotonic()
    downloads.download(competition, target, Watch())
    assert time.monotonic() - start >= 1.9
    assert len(kaggle_server.asked("DownloadDataFiles")) == 2


def test_a_retry_after_of_hours_is_an_error(
    downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("DownloadDataFiles", Status(429, retry_after="7200"))
    with pytest.raises(DataError, match=f"{ID}: Kaggle answered 429; call again in 2:00:00"):
        downloads.download(competition, target, Watch())


def test_delays_grow_and_are_random() -> None:
    policy = RetryPolicy(delay=1.0, longest_delay=60.0)
    for failures, middle in [(1, 1), (2, 2), (4, 8), (10, 60)]:
        drawn = {policy.delay_after(failures) for _ in range(100)}
        assert len(drawn) > 50 and min(drawn) >= middle / 2 and max(drawn) <= middle * 1.5


def test_attempts_without_progress_are_limited(
    downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", *[Status(500)] * 10)
    with pytest.raises(DataError, match=f"^{ID}: gave up after 4 attempts: Kaggle answered 500; call again later$"):
        downloads.download(competition, target, Watch())
    assert len(kaggle_server.asked("archive")) == 4


def test_attempts_with_progress_are_not_limited(
    downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", *[Cut(0.3)] * 6)
    downloads.download(competition, target, Watch())
    assert md5(target) == competition.checksums["zip"] and len(kaggle_server.asked("archive")) == 7


def test_a_server_that_ignores_range_sends_the_file_again(
    downloads: KaggleDownloads, competition: Competition, served: Served, target: Path, kaggle_server: KaggleServer
) -> None:
    served.ranges = False
    kaggle_server.script("archive", Cut(0.4))
    downloads.download(competition, target, Watch())
    assert target.read_bytes() == served.archive
    second = kaggle_server.asked("archive")[1]
    assert second.range is not None and second.status == 200 and second.sent == len(served.archive)


def test_reaching_the_same_point_again_is_not_progress(
    downloads: KaggleDownloads, competition: Competition, served: Served, target: Path, kaggle_server: KaggleServer
) -> None:
    served.ranges = False
    kaggle_server.script("archive", *[Cut(0.4), Cut(0.3)] * 5)
    with pytest.raises(DataError, match="gave up after 4 attempts: the connection to Kaggle failed or was cut"):
        downloads.download(competition, target, Watch())
    assert len(kaggle_server.asked("archive")) == 4


@pytest.mark.parametrize("telltale", ["ETag", "Last-Modified", "size"])
def test_a_file_that_changed_meanwhile_is_downloaded_again(
    telltale: str,
    downloads: KaggleDownloads,
    tmp_path: Path,
    target: Path,
    served: Served,
    kaggle_server: KaggleServer,
) -> None:
    competition = make_competition(tmp_path)
    served.last_modified = "Mon, 01 Jan 2024 00:00:00 GMT" if telltale == "Last-Modified" else None
    served.has_etag = telltale == "ETag"
    kaggle_server.script("archive", Cut(0.4), *[Status(500)] * 4)
    with pytest.raises(DataError, match="gave up"):
        downloads.download(competition, target, Watch())
    old_size = len(served.archive)
    served.archive = zip_bytes({**FILES, "train.csv": random.Random(9).randbytes(400_000 + (telltale == "size"))})
    assert (len(served.archive) == old_size) == (telltale != "size")
    if telltale == "Last-Modified":
        served.last_modified = "Tue, 02 Jan 2024 00:00:00 GMT"
    downloads.download(competition, target, Watch())
    assert target.read_bytes() == served.archive and leftovers(target) == []


def test_a_file_that_became_shorter_is_downloaded_again(
    downloads: KaggleDownloads, tmp_path: Path, target: Path, served: Served, kaggle_server: KaggleServer
) -> None:
    served.has_etag = False
    kaggle_server.script("archive", Cut(0.4), *[Status(500)] * 4)
    competition = make_competition(tmp_path)
    with pytest.raises(DataError, match="gave up"):
        downloads.download(competition, target, Watch())
    served.archive = zip_bytes({"small.csv": b"a,b\n"})
    downloads.download(competition, target, Watch())
    assert target.read_bytes() == served.archive
    assert [request.status for request in kaggle_server.asked("archive")][-2:] == [416, 200]


def test_a_full_disk_is_an_error_and_the_next_call_resumes(
    competition: Competition, served: Served, target: Path, kaggle_server: KaggleServer
) -> None:
    # The largest file that a process may write stands in for a disk: the call that fails is the same.
    program = (
        "import resource, sys, pathlib\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "from pytest_mlebench.catalog import Competition\n"
        "from pytest_mlebench.data.download.kaggle import KaggleDownloads\n"
        "from pytest_mlebench.errors import DataError\n"
        "competition = Competition.load(pathlib.Path(sys.argv[1]))\n"
        "try:\n"
        "    KaggleDownloads().download(competition, pathlib.Path(sys.argv[2]))\n"
        "except DataError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(competition.folder), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    missing = len(served.archive) - 200_000
    assert f"File too large with {format_size(missing)} left to download. The partial download is kept" in done.stdout
    watch = Watch()
    KaggleDownloads(QUICK).download(competition, target, watch)
    assert watch.seen[0][0] == 200_000 and target.read_bytes() == served.archive


@pytest.mark.parametrize("kind", ["truncated", "corrupted", "renamed"])
def test_a_damaged_archive_is_kept_and_the_error_has_both_checksums(
    kind: str, downloads: KaggleDownloads, competition: Competition, served: Served, target: Path
) -> None:
    good = served.archive
    middle, changed = len(good) // 2, bytearray(good)
    if kind == "corrupted":
        changed[middle] ^= 1
    if kind == "renamed":  # the flag for UTF-8, and a name that is not
        directory = good.index(b"PK\1\2")
        changed[directory + 9], changed[directory + 46] = 8, 0xFF
    served.archive = bytes(changed)[: middle if kind == "truncated" else None]
    with pytest.raises(DataError) as error:
        downloads.download(competition, target, Watch())
    damaged = target.with_name("archive.zip.damaged")
    assert damaged.read_bytes() == served.archive and not target.exists() and leftovers(target) == [damaged.name]
    for part in (ID, str(damaged), f"expected md5 {md5(good)}", f"found {md5(served.archive)}", "call again"):
        assert part in str(error.value)
    served.archive = good
    downloads.download(competition, target, Watch())
    assert target.read_bytes() == good


def test_an_archive_that_kaggle_repacked_is_accepted_with_a_warning(
    downloads: KaggleDownloads,
    competition: Competition,
    served: Served,
    target: Path,
) -> None:
    served.archive = zip_bytes(dict(reversed(FILES.items())))
    watch = Watch()
    downloads.download(competition, target, watch)
    assert target.read_bytes() == served.archive
    assert f"expected md5 {competition.checksums['zip']}, found {md5(served.archive)}" in watch.warnings[0]


def test_the_download_is_compared_with_the_servers_md5(
    downloads: KaggleDownloads, tmp_path: Path, served: Served, target: Path
) -> None:
    served.google_hash = "crc32c=AAAAAA==,md5=AAAAAAAAAAAAAAAAAAAAAA=="
    with pytest.raises(DataError, match=r"its md5 differs from the server's.*expected md5 0{32}, found"):
        downloads.download(make_competition(tmp_path), target, Watch())


def test_a_folder_that_cannot_be_written_is_a_readable_error(
    downloads: KaggleDownloads, competition: Competition, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        downloads.download(competition, tmp_path / "file" / "archive.zip", Watch())


def test_sizes_are_available_without_downloading_the_archive(
    downloads: KaggleDownloads, competition: Competition, served: Served, kaggle_server: KaggleServer
) -> None:
    unpacked = sum(map(len, FILES.values()))
    assert downloads.size(competition) == Size(download=len(served.archive), unpacked=unpacked)
    assert [(request.range, request.status) for request in kaggle_server.asked("archive")] == [("bytes=0-0", 206)]


def test_without_a_list_of_files_the_size_of_the_archive_is_used(
    downloads: KaggleDownloads, competition: Competition, served: Served, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("ListDataFiles", Status(403))
    assert downloads.size(competition) == Size(download=len(served.archive), unpacked=len(served.archive))


@pytest.mark.parametrize("summary", [True, False])
def test_sizes_of_many_files_come_from_the_summary_or_from_all_pages_of_the_list(
    summary: bool, downloads: KaggleDownloads, competition: Competition, served: Served, kaggle_server: KaggleServer
) -> None:
    served.files = {f"{number}.{number % 3}": number for number in range(450)}
    if not summary:
        kaggle_server.script("GetCompetitionDataFilesSummary", Status(404))
    assert downloads.size(competition).unpacked == sum(range(450))
    assert len(kaggle_server.asked("ListDataFiles")) == (1 if summary else 3)


def test_all_competitions_with_unaccepted_rules_are_listed_together(
    downloads: KaggleDownloads, tmp_path: Path, kaggle_server: KaggleServer
) -> None:
    competitions = [make_competition(tmp_path, f"c{number}") for number in range(20)]
    for number, competition in enumerate(competitions):
        kaggle_server.add(competition.id, FILES).rules_accepted = number not in (3, 17)
    with pytest.raises(DataError) as error:
        downloads.check(competitions)
    text = str(error.value)
    assert text.count("/rules") == 2 and "2 competitions: You must accept this competition's rules" in text
    assert "https://www.kaggle.com/c/c3/rules" in text and "https://www.kaggle.com/c/c17/rules" in text
    assert [request.range for request in kaggle_server.asked("archive")] == ["bytes=0-0"] * 18
    absent = downloads.check([*competitions[:3], make_competition(tmp_path, "gone")])
    assert list(absent) == ["gone"] and "gone: Kaggle answered 404" in str(absent["gone"])


def test_a_general_refusal_cancels_waiting_requests(
    downloads: KaggleDownloads, kaggle_server: KaggleServer, tmp_path: Path
) -> None:
    competitions = [make_competition(tmp_path, f"c{number}") for number in range(6)]
    for competition in competitions:
        kaggle_server.add(competition.id, FILES)
    busy = [Status(503, retry_after="20")] * 3
    kaggle_server.script("DownloadDataFiles", *busy, Status(401))
    with pytest.raises(DataError, match="Kaggle answered 401"):
        downloads.check(competitions)
    asked = [request.competition for request in kaggle_server.asked("DownloadDataFiles")]
    assert len(asked) == len(set(asked))  # waiting requests are not repeated


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "some-competition: Kaggle answered 403: scripted; .*https://www.kaggle.com/c/some-competition/rules"),
        (404, "some-competition: Kaggle answered 404: scripted; .* not, or no longer, on Kaggle"),
        (401, "some-competition: Kaggle answered 401: scripted; the API key in .KAGGLE_KEY, user ada is not accepted"),
        (400, "some-competition: Kaggle answered 400: scripted"),
    ],
)
def test_a_refusal_explains_what_to_do_and_is_not_retried(
    status: int,
    message: str,
    downloads: KaggleDownloads,
    competition: Competition,
    target: Path,
    kaggle_server: KaggleServer,
) -> None:
    kaggle_server.script("DownloadDataFiles", Status(status))
    with pytest.raises(DataError, match=message) as error:
        downloads.download(competition, target, Watch())
    assert os.environ["KAGGLE_KEY"] not in str(error.value)
    assert len(kaggle_server.asked("DownloadDataFiles")) == 1


def test_an_expired_link_is_requested_again(
    downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", Cut(0.4), Status(403))
    downloads.download(competition, target, Watch())
    assert len(kaggle_server.asked("DownloadDataFiles")) == 3


def test_an_unreachable_kaggle_is_a_readable_error(
    downloads: KaggleDownloads, competition: Competition, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "PROD")
    with socket.socket() as closed:  # nothing listens on this port
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(DataError, match=r"4 attempts: the proxy cannot connect to api.kaggle.com "):
            downloads.download(competition, target, Watch())


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (socket.gaierror(-2, "unknown"), "the host name localhost cannot be resolved: this machine is offline, or"),
        (ConnectionRefusedError(), "localhost refused the connection"),
        (TimeoutError(), "localhost did not answer within 30 s"),
    ],
)
def test_the_cause_of_a_failed_connection_is_named(
    raised: OSError,
    named: str,
    downloads: KaggleDownloads,
    competition: Competition,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise raised

    monkeypatch.delenv("http_proxy")
    monkeypatch.setattr("urllib3.util.connection.create_connection", fail)
    with pytest.raises(DataError, match=f"gave up after 4 attempts: {named}"):
        downloads.download(competition, target, Watch())


def test_a_server_without_tls_is_named(
    downloads: KaggleDownloads,
    competition: Competition,
    target: Path,
    kaggle_server: KaggleServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "PROD")
    connect = urllib3.util.connection.create_connection

    def redirected(address: object, *arguments: Any, **options: Any) -> socket.socket:
        return connect(("127.0.0.1", kaggle_server.port), *arguments, **options)  # the server uses plain HTTP

    monkeypatch.setattr("urllib3.util.connection.create_connection", redirected)
    with pytest.raises(DataError, match=r"gave up after 4 attempts: the TLS connection to api.kaggle.com failed"):
        downloads.download(competition, target, Watch())


def test_bundled_data_is_not_requested(downloads: KaggleDownloads, tmp_path: Path, kaggle_server: KaggleServer) -> None:
    with pytest.raises(DataError, match="bundled is not on Kaggle"):
        downloads.leaderboard(make_competition(tmp_path, "bundled", source="bundled"))
    assert kaggle_server.requests == []


def test_the_archive_server_never_receives_the_credentials(
    downloads: KaggleDownloads, competition: Competition, target: Path, kaggle_server: KaggleServer
) -> None:
    kaggle_server.script("archive", Cut(0.4))
    downloads.download(competition, target, Watch())
    assert all("Authorization" in request.headers for request in kaggle_server.asked("DownloadDataFiles"))
    assert not any("Authorization" in request.headers for request in kaggle_server.asked("archive"))


def test_many_threads_download_at_once(downloads: KaggleDownloads, competition: Competition, tmp_path: Path) -> None:
    targets = [tmp_path / f"{number}.zip" for number in range(6)]
    threads = [threading.Thread(target=downloads.download, args=(competition, path, Watch())) for path in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {md5(path) for path in targets} == {competition.checksums["zip"]}


def test_pages_become_a_description(
    downloads: KaggleDownloads, competition: Competition, served: Served, kaggle_server: KaggleServer
) -> None:
    served.pages = [
        {
            "name": "data-description",
            "content": "<p>The file <code>train.csv</code></p>",
            "postTitle": "Dataset Description",
        },
        {"name": "rules", "content": "<p>Be good.</p>"},
        {"name": "description", "content": "<h3>Goal</h3><p>Predict <b>y</b> from x_1.</p><script>no()</script>"},
        {"name": "evaluation", "content": "## Metric\n* AUC", "mimeType": "text/markdown"},
        {"name": "prizes", "content": ""},
    ]
    kaggle_server.script("ListCompetitionPages", Status(503))
    assert downloads.description(competition) == (
        "# Some\n\n## Description\n\n### Goal\n\nPredict **y** from x_1.\n\n## Evaluation\n\n## Metric\n* AUC\n\n"
        "## Dataset Description\n\nThe file `train.csv`\n"
    )


def test_a_competition_without_pages_is_an_error(downloads: KaggleDownloads, competition: Competition) -> None:
    with pytest.raises(DataError, match=f"{ID}: Kaggle has no pages"):
        downloads.description(competition)
