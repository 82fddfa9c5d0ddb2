"""PFC conformance checks of xoff for network interface cards.

`docs/conform.md` of xoff describes the checks.

- `run_checks` runs checks on a device, and returns a `Report`.
- `list_checks` returns the descriptions of all checks.
- `xoff_conform.plugin` is a plugin for pytest: one test per check.
"""

from .program import Check, ConformError, Report, list_checks, run_checks

__all__ = ["Check", "ConformError", "Report", "list_checks", "run_checks"]
