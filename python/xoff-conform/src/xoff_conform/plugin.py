"""A plugin for pytest: one test per check of `xoff conform`.

A test with the fixture `conform_check` runs once for each check. `xoff_conform.test_checks` has such a test:

    pytest --pyargs xoff_conform.test_checks --xoff-virtual

All selected checks run in one process of xoff, before the first test.
"""

import os

import pytest

from .program import ConformError, list_checks, run_checks

# The options of `xoff conform run` that have a value.
VALUES = {
    "port": "network device to which the device under test is connected",
    "device": "device at the far end: model:DEVICE or plain:DEVICE",
    "adapter": "how the program at the far end starts",
    "lockstep": "socket for a simulator that connects by itself",
    "speed": "speed of the link, such as 10g",
    "scale": "factor of counts and durations, above 0 and at most 1",
    "nic": "file with the expected deviations of a NIC",
    "mutant": "mutant instead of the model host",
    "html": "file for a page with a picture of each check",
    "captures": "folder for the frames of failed checks",
}
FLAGS = {
    "virtual": "run on the model host in virtual time",
    "long": "use the long forms of checks",
}


def pytest_addoption(parser):
    group = parser.getgroup("xoff", "PFC conformance checks of xoff (docs/conform.md)")
    group.addoption("--xoff-program", metavar="PATH", help="the program [default: $XOFF, or xoff]")
    group.addoption(
        "--xoff-peer",
        metavar="COMMAND",
        help="start this simulator for a run in lock step; {socket} stands for the path of the socket",
    )
    for name, text in VALUES.items():
        group.addoption(f"--xoff-{name}", metavar=name.upper(), help=text)
    for name, text in FLAGS.items():
        group.addoption(f"--xoff-{name}", action="store_true", help=text)


def run_options(config):
    """Return the options of `xoff conform run`."""
    options = []
    for name in VALUES:
        value = config.getoption(f"--xoff-{name}")
        if value:
            options += [f"--{name}", value]
    options += [f"--{name}" for name in FLAGS if config.getoption(f"--xoff-{name}")]
    return options


def has_device(config):
    """Return whether the options or the variables of the kernel's selftests name a device."""
    names = ("virtual", "port", "lockstep", "peer")
    return any(config.getoption(f"--xoff-{name}") for name in names) or bool(os.environ.get("NETIF"))


def pytest_generate_tests(metafunc):
    if "conform_check" not in metafunc.fixturenames:
        return
    try:
        checks = list_checks(metafunc.config.getoption("--xoff-program"))
    except ConformError as error:
        reason = f"{error}; --xoff-program or the variable XOFF names the program"
        raise pytest.Collector.CollectError(reason) from None
    identifiers = [check.id for check in checks]
    metafunc.parametrize("conform_check", identifiers, indirect=True, scope="session")


class ConformCheck:
    """A check with its result. `check` has the fields."""

    def __init__(self, check):
        self.check = check

    def require(self):
        """End the test with the result of the check."""
        check = self.check
        if check.outcome == "pass":
            return
        if check.outcome in ("fail", "xpass"):
            pytest.fail(check.explain(), pytrace=False)
        if check.outcome in ("xfail", "inconclusive"):
            pytest.xfail(f"{check.id} {check.outcome}: {check.detail}")
        pytest.skip(f"{check.id} {check.outcome}: {check.detail}")


@pytest.fixture(scope="session")
def conform_report(request):
    """The report of a run of all selected checks."""
    selected = []
    for item in request.session.items:
        identifier = getattr(item, "callspec", None) and item.callspec.params.get("conform_check")
        if identifier and identifier not in selected:
            selected.append(identifier)
    if not has_device(request.config):
        pytest.fail("no device: give --xoff-virtual, --xoff-port DEVICE or --xoff-lockstep SOCKET", pytrace=False)
    program, peer = (request.config.getoption(f"--xoff-{name}") for name in ("program", "peer"))
    try:
        return run_checks(run_options(request.config), selected, program, peer)
    except ConformError as error:
        reason = str(error)
    # pytest keeps the failure of a fixture, so the checks do not run again for each test.
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def conform_check(request, conform_report):
    """A check with its result."""
    check = conform_report.checks.get(request.param)
    if check is None:
        pytest.fail(f"the run ended before {request.param}", pytrace=False)
    return ConformCheck(check)
