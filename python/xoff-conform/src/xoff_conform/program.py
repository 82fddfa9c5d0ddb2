"""Runs `xoff conform` and reads its JSON report."""

import json
import os
import pathlib
import shlex
import subprocess
import tempfile
from typing import NamedTuple

# Exit codes with a report: no check failed, a check failed, inconclusive.
REPORT_EXIT_CODES = (0, 1, 5)


class ConformError(Exception):
    """The checks could not run. The text is the message of xoff."""


class Check(NamedTuple):
    """A check and its result. `outcome` is pass, fail, skip, xfail, xpass, inconclusive or info."""

    id: str
    title: str
    stimulus: str
    observation: str
    criterion: str
    clause: str
    outcome: str = ""
    # The measured values, or the reason of the outcome.
    detail: str = ""
    # Checks whose behaviour this check uses, and which also failed.
    failed_prerequisites: tuple = ()

    def explain(self):
        """Return the description of the check with its result."""
        lines = [f"{self.id}: {self.title}: {self.outcome.upper()}", self.detail, ""]
        for name in ("stimulus", "observation", "criterion", "clause"):
            lines.append(f"{name:<12} {getattr(self, name)}")
        if self.failed_prerequisites:
            lines += ["", "look first at " + ", ".join(self.failed_prerequisites) + ", which also failed"]
        return "\n".join(lines)


class Report(NamedTuple):
    """The results of a run. `checks` has a check by its identifier, in the order of the run."""

    device: str
    timing: str
    speed_mbps: int
    checks: dict


def read_check(fields):
    """Return the check of an object in a JSON report."""
    values = {name: fields[name] for name in Check._fields if name in fields}
    values["failed_prerequisites"] = tuple(values.get("failed_prerequisites", ()))
    return Check(**values)


def find_program(program=None):
    """Return the path of xoff: the argument, the environment variable XOFF, or `xoff`."""
    return program or os.environ.get("XOFF") or "xoff"


def list_checks(program=None):
    """Return all checks in their order, without results."""
    command = [find_program(program), "conform", "list", "--json"]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = process.communicate()
    if process.returncode:
        raise ConformError(errors.strip())
    return [read_check(fields) for fields in json.loads(output)["checks"]]


def run_checks(options, checks=(), program=None, peer=None):
    """Run checks on a device.

    `options` are those of `xoff conform run`, for example `["--virtual"]` or `["--port", "eth1"]`. No `checks` are all.
    `peer` is the command of a simulator, for a run in lock step on a socket of its own: `{socket}` stands for the path.

    Raises ConformError if no check could run.
    """
    with tempfile.TemporaryDirectory(prefix="xoff-conform-") as name:
        folder = pathlib.Path(name)
        report_path, log_path, socket = folder / "report.json", folder / "log", str(folder / "mac.sock")
        lockstep = [] if peer is None else ["--lockstep", socket]
        command = [find_program(program), "conform", "run", *lockstep, *options]
        command += ["--report", str(report_path), *checks]
        with open(log_path, "w") as log:
            processes = [start(command, stdout=subprocess.DEVNULL, stderr=log)]
            try:
                if peer is not None:
                    words = [word.replace("{socket}", socket) for word in shlex.split(peer)]
                    processes.append(start(words, stdout=log, stderr=log))
                code = wait_for(processes)
            finally:
                for process in processes:
                    end(process)
        if code not in REPORT_EXIT_CODES or not report_path.exists():
            reason = log_path.read_text(errors="replace").strip()
            raise ConformError(f"{shlex.join(command)}\nends with exit code {code}:\n{reason}")
        return read_report(report_path.read_text())


def read_report(text):
    """Return the report of `xoff conform run --report FILE`."""
    report = json.loads(text)
    if report.get("schema") != "xoff.conform/1":
        raise ConformError(f"the report has the schema {report.get('schema')}, this package reads xoff.conform/1")
    checks = {fields["id"]: read_check(fields) for fields in report["checks"]}
    if not checks:
        raise ConformError(f"no check ran: {report['preflight']['detail'] or report['failure']}")
    return Report(report["device"], report["timing"], report["speed_mbps"], checks)


def start(command, **options):
    """Start a program. Raises ConformError if there is no such program."""
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    except OSError as error:
        raise ConformError(f"`{command[0]}` does not start: {error.strerror}") from error


def wait_for(processes):
    """Wait for xoff, and then for the simulator. Returns the exit code of xoff.

    Raises ConformError if the simulator ends with an error, because xoff would wait for another one.
    """
    xoff, *simulators = processes
    while xoff.poll() is None:
        failed = [simulator for simulator in simulators if simulator.poll()]
        try:
            xoff.wait(timeout=2 if failed else 0.1)
        except subprocess.TimeoutExpired:
            if failed:
                reason = f"the simulator `{failed[0].args[0]}` ends with exit code {failed[0].returncode}"
                raise ConformError(reason) from None
    for simulator in simulators:
        try:
            simulator.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
    return xoff.returncode


def end(process):
    """End a program that still runs."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
