import pandas as pd

from pytest_mlebench.data.tables import take_groups


def test_groups_are_taken_in_the_order_given_and_their_rows_in_that_of_the_table():
    table = pd.DataFrame({"group": ["b", "a", "c", "b", "a"], "value": range(5)})
    assert take_groups(table, "group", ["c", "b"])["value"].tolist() == [2, 0, 3]
    assert take_groups(table, "group", ["a", "b", "c"])["value"].tolist() == [1, 4, 0, 3, 2]


def test_no_groups_give_no_rows():
    table = pd.DataFrame({"group": [1, 2], "value": [3, 4]})
    assert take_groups(table, "group", []).columns.tolist() == ["group", "value"]
    assert len(take_groups(table, "group", [])) == 0
