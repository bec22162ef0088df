"""Episodes over HTTP and with an event loop: the server, its client, and access control."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench, SandboxError, UsageError, read_group
from pytest_mlebench.extras.training.async_episode import AsyncEpisode
from pytest_mlebench.extras.training.client import EpisodeClient
from pytest_mlebench.extras.training.gym import CompetitionEnv
from pytest_mlebench.extras.training.server import MAX_BODY, EpisodeServer

pytestmark = pytest.mark.full
COPY_SAMPLE = "cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv"
TWIN, REAL = "spaceship-titanic", "smoke-diabetes"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(sandbox="local", data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture
def server(bench: Bench) -> Iterator[EpisodeServer]:
    made = EpisodeServer(bench, max_episodes=2)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def client(server: EpisodeServer) -> EpisodeClient:
    return EpisodeClient(server.url, server.token)


def test_an_episode_on_a_server_works_like_a_local_one(client: EpisodeClient, bench: Bench) -> None:
    with client.episode(TWIN, output_bytes=1000) as far, bench.episode(TWIN, output_bytes=1000) as near:
        assert far.reset(seed=7) == near.reset(seed=7)
        for command in ("echo out; echo err >&2; exit 3", "seq 10000", COPY_SAMPLE, "sleep 9"):
            limit = 1 if command == "sleep 9" else None
            steps = [episode.step(command, timeout=limit) for episode in (far, near)]
            for name in ("output", "exit_code", "submission", "reward", "terminated", "truncated"):
                assert getattr(steps[0], name) == getattr(steps[1], name), (command, name)
            assert steps[0].info["killed"] == steps[1].info["killed"] == (limit is not None)
            assert steps[0].info["measured"].score == steps[1].info["measured"].score
        far.write_file("$CODE_DIR/a.bin", b"\x00\xff")
        assert far.read_file("$CODE_DIR/a.bin") == b"\x00\xff"
        reports = [episode.submit().to_json() for episode in (far, near)]
        for report in reports:
            del report["created_at"], report["submission_path"]
        assert reports[0] == reports[1]


def test_errors_match_those_of_local_episodes(client: EpisodeClient) -> None:
    for options, message in (
        ({"reward": "fame"}, "reward: 'fame' is not one of"),
        ({"rewards": "x"}, "episode has no option rewards here; it has data, size"),
        ({"group": "../x"}, "group: '../x' is not a name of"),
        ({"size": 3}, "size: 3 is not one of"),
        ({"size": []}, "size: [] is not one of"),
        ({"group": 3}, "group: 3 is not a name of"),
        ({"output_bytes": 0.5}, "output_bytes: 0.5 is not a whole number of at least 1"),
        ({"time_limit": -1}, "time_limit: -1 is not a positive number"),
        (
            {"step_timeout": 1e12},
            "step_timeout: 1000000000000.0 is not a positive number of seconds, of at most a hund",
        ),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            client.episode(TWIN, **options)
    with pytest.raises(UsageError, match="unknown competition"):
        client.episode("spaceship")
    with client.episode(REAL, data="real") as episode:
        with pytest.raises(UsageError, match=re.escape("call reset() first")):
            episode.step("true")
        episode.reset()
        with pytest.raises(UsageError, match="no-such cannot be read"):
            episode.read_file("no-such")
        with pytest.raises(UsageError, match=re.escape("timeout: 0.0 is not a positive number")):
            episode.step("true", timeout=0)
    with pytest.raises(UsageError, match="there is no episode '"):
        episode.reset()
    episode.close()  # closing twice is not an error


def test_episodes_of_several_clients_are_recorded_in_the_group_that_they_name(bench: Bench, tmp_path: Path) -> None:
    server = EpisodeServer(bench.with_settings(runs_dir=tmp_path))
    thread = threading.Thread(target=server.serve)
    thread.start()
    clients = [EpisodeClient(server.url, server.token) for _ in range(2)]
    try:
        with (
            clients[0].episode(REAL, data="real", group="mine") as one,
            clients[1].episode(REAL, data="real", group="mine") as two,
            clients[1].episode(REAL, data="real", group="mine", time_limit=9) as other,
        ):
            for seed, episode in enumerate((one, two)):
                episode.reset(seed)
                episode.step(COPY_SAMPLE)
            with pytest.raises(UsageError, match="run group mine has episodes with other options"):
                other.reset(2)
            assert [episode.submit().score for episode in (one, two)] == [72.61873] * 2
    finally:
        server.stop()
        thread.join(60)
    assert {record.seed for record in read_group(tmp_path / "mine").records} == {0, 1}
    assert len(list(tmp_path.glob("mine/*/trajectory.json"))) == 2 and (tmp_path / "mine/report.html").is_file()


def test_no_more_episodes_are_open_than_the_server_allows(client: EpisodeClient) -> None:
    with client.episode(REAL, data="real"), client.episode(REAL, data="real"):
        with pytest.raises(UsageError, match="2 episodes are open, as many as --max-episodes allows"):
            client.episode(REAL, data="real")
        assert client.health()["episodes"] == 2
    assert client.health() == {"status": "ok", "version": client.health()["version"], "episodes": 0}


def test_an_unused_episode_is_closed(bench: Bench) -> None:
    server = EpisodeServer(bench, idle=2)
    threading.Thread(target=server.serve, daemon=True).start()
    client = EpisodeClient(server.url, server.token)
    try:
        left = client.episode(REAL, data="real")
        left.reset(seed=0)
        assert left.step("sleep 4; echo still here").output == "still here\n"  # a long step counts as use
        deadline = time.monotonic() + 60
        while client.health()["episodes"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        with pytest.raises(UsageError, match="it may have been closed"):
            left.step("true")
    finally:
        server.stop()


def ask(server: EpisodeServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    sent = {"Authorization": f"Bearer {server.token}"} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    try:
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_without_the_token_nothing_is_revealed_and_nothing_done(server: EpisodeServer) -> None:
    for given in ("", "Bearer ", f"Basic {server.token}", f"Bearer {server.token}x", f"bearer {server.token[:-1]}"):
        for method, path in (("GET", "/health"), ("POST", "/episodes"), ("GET", "/nowhere"), ("DELETE", "/episodes/x")):
            body = json.dumps({"competition": REAL, "options": {"data": "real"}}).encode()
            status, answer = ask(server, method, path, body, Authorization=given)
            assert status == 401 and answer["error"]["message"].startswith("the header Authorization"), (given, path)
    assert ask(server, "GET", "/health")[1]["episodes"] == 0
    with pytest.raises(UsageError, match="Authorization"):
        EpisodeClient(server.url, "wrong").health()


def test_hostile_requests_get_an_answer_and_the_server_continues(server: EpisodeServer) -> None:
    id = ask(server, "POST", "/episodes", json.dumps({"competition": REAL, "options": {"data": "real"}}).encode())[1][
        "id"
    ]
    for status, method, path, body in (
        (404, "GET", "/", b""),
        (404, "GET", f"/episodes/{id}/reset", b""),
        (404, "POST", f"/episodes/{id}/__init__", b""),
        (404, "POST", "/episodes/../../etc/passwd/reset", b""),
        (404, "POST", "/episodes/nobody/reset", b""),
        (400, "POST", f"/episodes/{id}/reset", b"{"),
        (400, "POST", f"/episodes/{id}/reset", b"[" * 100_000),
        (400, "POST", f"/episodes/{id}/reset", b"\xff\xfe\x00"),
        (400, "POST", f"/episodes/{id}/reset", b"[]"),
        (400, "POST", f"/episodes/{id}/reset", b'{"seed": "0"}'),
        (400, "POST", f"/episodes/{id}/step", b"{}"),
        (400, "POST", f"/episodes/{id}/step", b'{"command": 3}'),
        (400, "POST", f"/episodes/{id}/step", b'{"command": "a\\u0000b"}'),
        (400, "POST", f"/episodes/{id}/write", b'{"path": "x", "data": "???"}'),
        (400, "POST", "/episodes", b'{"competition": "../.."}'),
        (400, "POST", "/episodes", b'{"competition": "smoke-diabetes", "options": {"size": "vast"}}'),
        (400, "POST", "/episodes", b'{"competition": "smoke-diabetes", "options": {"data": "mine"}}'),
    ):
        got, answer = ask(server, method, path, body)
        assert (got, list(answer)) == (status, ["error"]), (path, body[:40], answer)
    assert ask(server, "POST", "/episodes", Content_Length=str(MAX_BODY + 1))[0] == 413
    assert ask(server, "POST", "/episodes", Content_Length="-1")[0] == 400
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        connection.recv(1000)
    assert ask(server, "GET", "/health") == (200, ask(server, "GET", "/health")[1])
    assert ask(server, "DELETE", f"/episodes/{id}") == (200, {})


def test_an_unreachable_server_an_invalid_url_and_a_used_port_are_reported(server: EpisodeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(SandboxError, match=f"http://127.0.0.1:{port} did not answer: .*refused"):
        EpisodeClient(f"http://127.0.0.1:{port}", "x").health()
    for url in ("https://127.0.0.1:1", "127.0.0.1:7576", "", "http://h:99999", "http://h:abc", "http://[::1"):
        with pytest.raises(UsageError, match="is not the address of a server"):
            EpisodeClient(url, "x")
    with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
        EpisodeServer(Bench(sandbox="local"), port=int(server.url.rsplit(":", 1)[1]))


def test_the_gymnasium_environment_works_with_an_episode_on_a_server(client: EpisodeClient) -> None:
    with client.episode(REAL, data="real") as episode:
        environment = CompetitionEnv(episode)
        environment.reset(seed=1)
        environment.step(COPY_SAMPLE)
        *_, terminated, _, info = environment.step("submit")
        assert terminated and info["report"].score == 72.61873


def test_episodes_can_be_awaited_concurrently(client: EpisodeClient, bench: Bench) -> None:
    async def play() -> list[str]:
        async with (
            AsyncEpisode(bench.episode(REAL, data="real")) as near,
            AsyncEpisode(client.episode(REAL, data="real")) as far,
        ):
            await asyncio.gather(near.reset(seed=0), far.reset(seed=0))
            await asyncio.gather(near.write_file("one", b"1"), far.write_file("one", "2"))
            # Each step waits for the other one, which must run concurrently.
            meet = "mkfifo /tmp/{0} 2>/dev/null; timeout 30 sh -c 'echo {1} > /tmp/{0} & cat /tmp/{2}; wait'"
            names = [f"mlebench-{os.getpid()}-{side}" for side in "ab"]
            commands = [f"mkfifo {Path('/tmp', name)}; cat one" for name in names]
            await asyncio.gather(near.step(commands[0]), far.step(commands[1]))
            steps = await asyncio.gather(
                near.step(meet.format(names[0], "near", names[1])), far.step(meet.format(names[1], "far", names[0]))
            )
            await near.step(f"rm /tmp/{names[0]} /tmp/{names[1]}")
            contents = [await near.read_file("one"), await far.read_file("one")]
            await far.step(COPY_SAMPLE)
            report = await far.submit()
            await asyncio.gather(near.close(), near.close())  # the context manager closes it again
            assert contents == [b"1", b"2"] and report.score == 72.61873
            return [step.output for step in steps]

    assert asyncio.run(play()) == ["far\n", "near\n"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped_and_leaves_no_process(end: signal.Signals, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("mlebench")), "serve-episodes", "--port=0", "--sandbox=local"]
    with subprocess.Popen([*command, f"--data-dir={tmp_path}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url, token = process.stdout.readline().strip(), process.stdout.readline().strip()
        assert token.startswith("MLEBENCH_EPISODES_TOKEN=")
        client = EpisodeClient(url, token.partition("=")[2])
        idle, busy = (client.episode(REAL, data="real") for _ in range(2))
        pids = []
        for episode in (idle, busy):
            episode.reset(seed=0)
            pids.append(int(episode.step("sleep 1000 & echo $!").output))
        with ThreadPoolExecutor(1) as thread:
            step = thread.submit(busy.step, "sleep 1000")
            time.sleep(1)
            process.send_signal(end)
            assert process.wait(60) == 0
            assert step.exception(60) is not None or step.result().terminated
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_without_an_engine_the_error_suggests_an_option_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(SandboxError, match=re.escape("(`--sandbox=local`)")) as told:
        EpisodeServer(Bench(data_dir=tmp_path))
    assert "--trust-agent" not in str(told.value)


def test_the_documented_programs_run(
    server: EpisodeServer, bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    programs = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    (remote,) = (program for program in programs if "EpisodeClient(" in program)
    names: dict[str, Any] = {}
    exec(remote, names)
    submission, score = names["play"](server.url, server.token)
    assert submission == "valid" and 0 < score < 1
    (awaited,) = (program for program in programs if "asyncio.run(" in program)
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(bench.data_dir))
    exec(awaited.replace('sandbox="docker", network="none"', 'sandbox="local"'), {"__name__": "__main__"})
    scores = json.loads(capsys.readouterr().out)
    assert len(scores) == 4 and scores[0] == score
