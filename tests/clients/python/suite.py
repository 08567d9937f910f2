"""Runs the functions of a suite and counts them in the words that `cargo xtask test` reads."""

import os
import sys
import traceback

HOST = "127.0.0.1"
PORT = int(os.environ["SCRUBJAY_PORT"])


def run(tests):
    """Runs every function of `tests`, then ends the process with the right status."""
    failed = 0
    for test in tests:
        try:
            test()
        except Exception:
            failed += 1
            print(f"FAILED: {test.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(tests) - failed} passed, {failed} failed", flush=True)
    # Connections of clients do not keep the process.
    os._exit(1 if failed else 0)


def tests_of(module):
    """The functions of `module` whose name begins with `test_`, in the order written."""
    return [value for name, value in vars(module).items() if name.startswith("test_")]


def equal(got, expected):
    """Fails with both values if they differ; long ones are shortened."""
    if got != expected:
        raise AssertionError(f"got {got!r:.200}, expected {expected!r:.200}")


def raises(kind, action):
    """Fails unless `action()` raises `kind`."""
    try:
        action()
    except kind:
        return
    raise AssertionError(f"no {kind}")
