"""Runs rdma-core's own tests, and prints one JSON object for each.

    suite.py TESTS SECONDS --dev DEVICE

TESTS is the directory of the tests. A test that takes longer than SECONDS ends
the program, with the stacks of its threads on standard error.
"""

import faulthandler
import json
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

directory, seconds = sys.argv[1], float(sys.argv[2])
del sys.argv[1:3]
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


tests = SourceFileLoader("tests", os.path.join(directory, "__init__.py")).load_module()
parser.parse_args()
unittest.defaultTestLoader.loadTestsFromModule(tests).run(Result())
