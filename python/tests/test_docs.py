"""The examples of docs/guide/python.md, as doctests, in an empty folder."""

import doctest
import os
import tempfile
import unittest

from common import ROOT, data


class Examples(unittest.TestCase):
    def test_examples(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                failed, tried = doctest.testfile(os.path.join(ROOT, "docs", "guide", "python.md"), module_relative=False,
                                                 globs={"trace": data("trace_small.json"), "runs": data("runs_small.csv")},
                                                 optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            finally:
                os.chdir(before)
        self.assertGreater(tried, 30)
        self.assertEqual(failed, 0)


if __name__ == "__main__":
    unittest.main()
