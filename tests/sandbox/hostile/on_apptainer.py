"""Attacks that Apptainer's containers do not withstand, and tests that are specific to Docker.

``MLEBENCH_TEST_ENGINE=apptainer`` runs all others unchanged.
"""

from __future__ import annotations

DOES_NOT_HOLD = {
    "test_an_agent_wants_to_tell_another_something_by": "runs share the files of the data, and so locks on them",
    "test_an_agent_wants_to_see_which_files_another_reads": "runs share the files of the data, and so watches on them",
    "test_an_agent_wants_all[inotify instances]": "the kernel counts them for the user, in all namespaces",
    "test_two_runs_have_different_user_ids_that_the_host_does_not_use": "agents have the user's ID",
    "test_an_agent_wants_all[descriptors in flight]": "the kernel counts them for the user; the harness may have more",
    "test_files_of_the_image_owned_by_root_cannot_be_changed": "the files of the image are the agent's",
    "test_an_agent_that_survives_an_oom_killed_child_is_finished_and_the_record_notes_it": (
        "without a control group, the harness polls and ends the run"
    ),
    "test_a_memory_bomb_ends_its_run_and_no_other": "without a control group, the harness's message differs",
    "test_the_sockets_of_the_harness_are_inaccessible": "the agent's user may use them; relays do too",
    "test_descriptors_want_to_be_inherited": "the folder of the sockets is open to the agent's user",
    "test_signals_want_to_end_or_stop_the_first_process": "they may be sent; the kernel does not deliver them",
}
"""Tests of guarantees that do not hold, by name, with reasons."""
OF_DOCKER = {
    "test_builds.py": "builds of Docker's engine; tests/apptainer has Apptainer's",
    "test_dockerfiles.py": "images of Docker's engine",
    "test_a_daemon_does_not_outlive_the_time_limit": "it asks Docker; the contract's test looks for processes",
    "test_secrets_of_other_agents_cannot_be_found": "it makes a container with Docker",
    "test_no_process_of_a_run_continues_after_it_returns": "it asks Docker; the contract's test looks for processes",
    "test_another_container_is_unreachable": "it makes a container with Docker",
    "test_nothing_of_a_run_remains_in_the_engine": "there is no engine",
    "test_data_may_be_in_a_folder_with_any_name": "it looks for Docker's overlay; tests/apptainer has Apptainer's",
    "test_an_image_wants": "it makes an image with Docker",
    "test_an_agent_without_a_limit_wants_more_than_its_share_of_the_disk": "it assumes that 100 MB are written at once",
    "test_kernel_files.py": "untested with Apptainer",
    "test_an_agent_without_a_limit_wants_to_fill_the_disk_of_all_runs": "it assumes that 100 MB are written at once",
}
"""Tests that need Docker, by name prefix or file, with reasons."""
