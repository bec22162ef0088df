"""The private names of pytest, argparse and xdist that ``plugin.internals`` uses still exist and work as expected."""

from __future__ import annotations

import argparse

import numpy  # noqa: F401 - a session in this process forgets what it imports; numpy cannot be imported twice
import pytest

from pytest_mlebench.plugin import internals

pytestmark = pytest.mark.full


def test_option_names_of_all_plugins_are_known(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        def pytest_addoption(parser):
            parser.addoption("--alone")
            parser.getgroup("theirs").addoption("-Z", "--grouped")
    """)
    config = pytester.parseconfig()
    assert {"--alone", "-Z", "--grouped", "--collect-only", "-k"} <= internals.taken_option_names(config._parser)


def test_a_released_name_can_be_added_again_and_third_party_names_are_kept(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--seeds')")
    config = pytester.parseconfig()
    with pytest.raises(argparse.ArgumentError, match="--sandbox"):
        config._parser.addoption("--sandbox", dest="theirs")
    names = {"--sandbox": "mlebench_sandbox", "--seeds": "mlebench_seeds"}
    internals.release_option_names(config, names)
    config._parser.addoption("--sandbox", dest="theirs")
    with pytest.raises(ValueError, match="--seeds"):
        config._parser.addoption("--seeds", dest="again")


def test_ini_values_are_read_with_their_types(pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.toml").write_text("[pytest]\nmlebench_seeds = 3\nmlebench_cpus = 1.5\n")
    config = pytester.parseconfig("-o", "mlebench_cpus=2")
    keys = ("mlebench_seeds", "mlebench_cpus", "mlebench_memory")
    assert [internals.ini_value_as_written(config, key) for key in keys] == [3, "2", None]


def test_given_paths_are_detected_and_can_be_set(pytester: pytest.Pytester) -> None:
    test = pytester.makepyfile("def test_it(): pass")
    assert internals.has_paths(pytester.parseconfig(test))
    assert not internals.has_paths(pytester.parseconfig())
    pytester.makeconftest("""
        from pytest_mlebench.plugin import internals

        def pytest_configure(config):
            internals.set_paths(config, [str(config.rootpath / "other.py")])
    """)
    pytester.makepyfile(other="def test_one(): pass\ndef test_two(): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize("options", [(), ("--full-trace",)])
def test_an_interrupted_session_ends_with_a_message_instead_of_a_line_of_code(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makeconftest("""
        import pytest
        from pytest_mlebench.plugin import internals

        @pytest.fixture(autouse=True)
        def named(request):
            class Named:
                @pytest.hookimpl(trylast=True)
                def pytest_keyboard_interrupt(self):
                    internals.name_interrupt(request.config, "interrupted")

            request.config.pluginmanager.register(Named())
    """)
    pytester.makepyfile("def test_it():\n    raise KeyboardInterrupt")
    text = pytester.runpytest_subprocess(*options).stdout.str()
    assert ("!! interrupted !!" in text) == (not options) and (".py:2: KeyboardInterrupt" in text) == bool(options)


@pytest.mark.parametrize("capture", ["fd", "sys"])
def test_a_line_is_printed_while_test_output_is_captured(pytester: pytest.Pytester, capture: str) -> None:
    pytester.makepyfile("""
        from pytest_mlebench.plugin import internals

        def test_it(request):
            print("later")
            with internals.capture_suspended(request.config):
                print("at once", flush=True)
    """)
    result = pytester.runpytest_subprocess(f"--capture={capture}")
    assert "at once" in result.stdout.str() and "later" not in result.stdout.str()


def test_last_failed_finds_an_item_whose_name_has_brackets(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from pytest_mlebench.plugin import internals

        class Item(pytest.Function):
            @property
            def id(self):
                return internals.parsed_id(super().id)

        class File(pytest.File):
            def collect(self):
                def fail():
                    assert False
                yield Item.from_parent(self, name="a[seed=0]", callobj=fail)
                yield Item.from_parent(self, name="a[seed=1]", callobj=lambda: None)

        def pytest_collect_file(file_path, parent):
            return File.from_parent(parent, path=file_path) if file_path.suffix == ".own" else None
    """)
    (pytester.path / "it.own").touch()
    pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    pytester.runpytest_subprocess("--lf").assert_outcomes(failed=1)


def test_workers_are_known_counted_and_can_report_before_their_node_ids(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from pytest_mlebench.plugin import internals

        heard = []

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_finish(session):
            if internals.worker_input(session.config) is not None:
                internals.send_to_controller(session.config, [item.name for item in session.items])

        @pytest.hookimpl(optionalhook=True)
        def pytest_configure_node(node):
            internals.open_worker_channel(node, heard.append)

        @pytest.hookimpl(optionalhook=True)
        def pytest_xdist_node_collection_finished(node, ids):
            assert heard and heard[0] == ["test_it"]

        def pytest_report_header(config):
            return f"{internals.worker_count(config)} workers, {internals.worker_input(config)}"
    """)
    pytester.makepyfile("def test_it(): pass")
    alone = ("-p", "no:mlebench")  # without our plugin, which opens the same channel
    result = pytester.runpytest_subprocess(*alone, "-n", "2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 workers, None"])
    pytester.runpytest_subprocess(*alone).stdout.fnmatch_lines(["1 workers, None"])


def test_reports_are_found_by_a_plugins_category(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        from pytest_mlebench.plugin import internals

        def pytest_report_teststatus(report):
            return ("medal", "m", "MEDAL") if report.when == "call" else None

        def pytest_terminal_summary(terminalreporter):
            for report in internals.reports_of(terminalreporter, ["none", "medal"]):
                terminalreporter.write_line(f"found {report.nodeid}")
    """)
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_inprocess().stdout.fnmatch_lines(["found *::test_it"])
