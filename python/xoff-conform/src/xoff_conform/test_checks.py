"""The checks as tests. `pytest --pyargs xoff_conform.test_checks --xoff-virtual` runs them."""


def test_check(conform_check, record_property):
    check = conform_check.check
    record_property("title", check.title)
    record_property("detail", check.detail)
    record_property("clause", check.clause)
    conform_check.require()
