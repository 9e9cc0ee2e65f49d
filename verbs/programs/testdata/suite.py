"""Runs rdma-core's own tests, and prints one JSON object for each.

    suite.py TESTS SECONDS [NAME ...] --dev DEVICE

TESTS is the directory of the tests. A test that takes longer than SECONDS ends
the program, with the stacks of its threads on standard error. With NAMEs, only
the tests with these names run.
"""

import faulthandler
import json
import multiprocessing
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

first_option = sys.argv.index("--dev")
directory, seconds, names = sys.argv[1], float(sys.argv[2]), sys.argv[3:first_option]
del sys.argv[1:first_option]
sys.path.insert(0, directory)

from args_parser import parser  # noqa: E402 (it is in the directory)

# What the tests print goes to standard error. Only the JSON objects go to standard output.
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("passed", "")
        faulthandler.dump_traceback_later(seconds, exit=True)
        self.say(test, "started", "")

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        self.say(test, *self.outcome)
        super().stopTest(test)

    def say(self, test, outcome, why):
        print(json.dumps({"test": test.id(), "outcome": outcome, "why": why}), file=report, flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self.outcome = ("error", self._exc_info_to_string(err, test))
        if not isinstance(test, unittest.TestCase):  # a class or a module, which is not started
            self.say(test, *self.outcome)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome = ("failed", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcome = ("failed", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = ("skipped", reason)


# A test passes one of its own methods to a process. From Python 3.14 on processes are not made by fork, and
# the method would be sent to them, with the test and all results.
multiprocessing.set_start_method("fork")

tests = SourceFileLoader("tests", os.path.join(directory, "__init__.py")).load_module()
parser.parse_args()


def chosen(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test)
        elif not names or test.id().rsplit(".", 1)[1] in names:
            yield test


unittest.TestSuite(chosen(unittest.defaultTestLoader.loadTestsFromModule(tests))).run(Result())
