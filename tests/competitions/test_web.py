import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import DataError

web = default_catalogue()["freesound-audio-tagging-2019"].module("web")
download = web.download


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", "99" if self.path == "/broken" else "7")
        self.end_headers()
        self.wfile.write(b"content")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_is_streamed_to_its_destination(server: str, tmp_path: Path) -> None:
    download(f"{server}/file?download=1", tmp_path / "new" / "file.zip")
    assert (tmp_path / "new" / "file.zip").read_bytes() == b"content"


@pytest.mark.parametrize("page", ["absent", "broken"])
def test_a_failed_download_leaves_nothing_and_names_the_url(server: str, tmp_path: Path, page: str) -> None:
    with pytest.raises(DataError, match=f"{server}/{page}"):
        download(f"{server}/{page}", tmp_path / "file.zip")
    assert list(tmp_path.iterdir()) == []
