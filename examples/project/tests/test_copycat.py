"""The agent still works, and a better submission has a better score."""

import pytest

pytestmark = [pytest.mark.competition("smoke-diabetes"), pytest.mark.agent("copycat")]


def test_the_agent_leaves_a_valid_submission(run_agent):
    record = run_agent(seed=7)
    assert record.outcome == "no_medal"
    assert record.report.valid_submission


def test_the_agent_logs_its_seed(run_agent, run_group):
    record = run_agent(seed=7)
    assert "the seed is 7" in (run_group.folder / record.run_id / "run.log").read_text()


def test_the_mean_is_better_than_the_sample(grade_submission, mean_submission, dataset):
    mean, sample = grade_submission(mean_submission), grade_submission(dataset.sample_submission)
    assert mean.score < sample.score  # root mean squared error: lower is better
