"""Answers as data frames: by the interchange protocol, read back here from its buffers, and by pandas and PyArrow where they are."""

import ctypes
import math
import unittest

import lockstep
from common import JOB

try:
    import pandas.api.interchange
except ImportError:
    pandas = None
try:
    import pyarrow.interchange
except ImportError:
    pyarrow = None


def column_of(column):
    """The values of a column, from the memory that it points to."""
    buffers, kind = column.get_buffers(), column.dtype[0]
    raw = {name: ctypes.string_at(one[0].ptr, one[0].bufsize) if one[0].bufsize else b"" for name, one in buffers.items() if one}
    if kind == 2:
        return [None if math.isnan(value) else value for value in memoryview(raw["data"]).cast("d")]
    if kind == 20:
        return [bool(value) for value in raw["data"]]
    ends = memoryview(raw["offsets"]).cast("q")
    return [raw["data"][ends[i]:ends[i + 1]].decode() if raw["validity"][i] else None for i in range(column.size())]


class Frames(unittest.TestCase):
    def same(self, answer, table):
        frame = answer.__dataframe__()
        self.assertEqual((frame.num_rows(), frame.column_names()), (len(table), table.keys()))
        for name, column in zip(table.keys(), frame.get_columns()):
            wanted = [row[name] for row in table]
            self.assertEqual(column_of(column), wanted, name)
            self.assertEqual(column.null_count, wanted.count(None), name)
            self.assertEqual(sum((column_of(one) for one in column.get_chunks(3)), []), wanted, name)
        self.assertEqual(sum(one.num_rows() for one in frame.get_chunks(2)), len(table))
        self.assertEqual(frame.select_columns([0]).column_names(), table.keys()[:1])

    def test_sweep(self):
        rows = lockstep.sweep(**{**JOB, "tp": [1, 2, 3]})
        self.same(rows, rows)

    def test_answers_are_rows(self):
        plan = lockstep.plan(model="gpt2-xl", gpu="a100-sxm-80", gpus="8,16", gbs=64, top=2)
        names = plan.__dataframe__().column_names()
        self.assertEqual(plan.__dataframe__().num_rows(), sum(len(count.choices) for count in plan.counts))
        self.assertIn("breakdown_gemm", names)
        one = lockstep.predict(**JOB).__dataframe__()
        self.assertEqual(one.num_rows(), 1)
        self.assertEqual(column_of(one.get_column_by_name("layout_tp")), [lockstep.predict(**JOB).layout.tp])
        self.assertEqual(column_of(one.get_column_by_name("fits")), [True])

    @unittest.skipUnless(pandas, "pandas is not here")
    def test_pandas(self):
        rows = lockstep.sweep(**{**JOB, "tp": [1, 2, 3]})
        frame = rows.to_pandas()
        self.assertEqual(list(frame.columns), rows.keys())
        self.assertEqual(list(frame["verdict"]), rows["verdict"])
        self.assertTrue(math.isnan(frame["step_time_s"][2]))
        self.assertEqual(frame["step_time_s"][1], rows["step_time_s"][1])
        read = pandas.api.interchange.from_dataframe(rows)
        self.assertEqual([None if one != one else one for one in read["refused"]], rows["refused"])
        self.assertEqual(list(read["tp"]), list(rows["tp"]))
        self.assertEqual(lockstep.predict(**JOB).to_pandas()["layout_tp"][0], lockstep.predict(**JOB).layout.tp)

    @unittest.skipIf(pandas, "pandas is here")
    def test_without_pandas(self):
        with self.assertRaisesRegex(ImportError, "needs pandas"):
            lockstep.predict(**JOB).to_pandas()

    @unittest.skipUnless(pyarrow, "pyarrow is not here")
    def test_pyarrow(self):
        rows = lockstep.sweep(**{**JOB, "tp": [1, 2, 3]})
        table = pyarrow.interchange.from_dataframe(rows)
        self.assertEqual(table.column_names, rows.keys())
        self.assertEqual(table["verdict"].to_pylist(), rows["verdict"])


if __name__ == "__main__":
    unittest.main()
