"""Which attacks Apptainer's containers do not withstand, and which tests are about Docker's own means.

``MLEBENCH_TEST_ENGINE=apptainer`` runs all others as they are.
"""

from __future__ import annotations

DOES_NOT_HOLD = {
    "test_an_agent_wants_to_tell_another_something_by": "runs share the files of the data, and so locks on them",
    "test_an_agent_wants_to_see_which_files_another_reads": "runs share the files of the data, and so watches of them",
    "test_an_agent_wants_all[inotify instances]": "the kernel counts them for the user, in all namespaces",
    "test_two_runs_are_users_of_different_numbers_and_none_of_this_machine": "agents have the number of the user",
    "test_an_agent_wants_all[descriptors in flight]": "the kernel counts them for the user; the harness may have more",
    "test_files_of_the_image_that_are_roots_cannot_be_touched": "the files of the image are the agent's",
    "test_an_agent_that_survives_the_end_of_a_child_for_memory_is_finished_and_the_record_tells": (
        "without a control group, the harness looks and ends the run"
    ),
    "test_a_memory_bomb_ends_its_run_and_no_other": "without a control group, the harness ends the run, in other words",
    "test_the_harnesss_sockets_are_out_of_reach": "they lie where the agent's user may enter; relays lead to the same",
    "test_descriptors_want_to_be_inherited": "the folder of the sockets is open to the agent's user",
    "test_signals_want_to_end_or_stop_the_first_process": "they may be sent; the kernel does not deliver them",
}
"""What does not hold, by name, and why."""
OF_DOCKER = {
    "test_builds.py": "builds of Docker's engine; tests/apptainer has Apptainer's",
    "test_dockerfiles.py": "images of Docker's engine",
    "test_a_daemon_does_not_outlive_the_time_limit": "it asks Docker; the contract's test looks for processes",
    "test_other_agents_secrets_are_not_to_be_found": "it makes a container with Docker",
    "test_nothing_of_a_run_goes_on_when_it_has_returned": "it asks Docker; the contract's test looks for processes",
    "test_another_container_is_out_of_reach": "it makes a container with Docker",
    "test_nothing_of_a_run_stays_with_the_engine": "there is no engine",
    "test_data_may_lie_in_a_folder_of_any_name": "it looks for Docker's overlay; tests/apptainer has Apptainer's",
    "test_an_image_wants": "it makes an image with Docker",
    "test_an_agent_without_a_limit_wants_more_than_its_share_of_the_disk": "it assumes that 100 MB are written at once",
    "test_kernel_files.py": "it was never tried with Apptainer",
    "test_an_agent_without_a_limit_wants_to_fill_the_disk_of_all_runs": "it assumes that 100 MB are written at once",
}
"""Tests that need Docker, by the beginning of their names or by their files."""
