"""Columns are NumPy arrays where NumPy is there, else arrays and lists of the standard library, with the same values."""

import array
import math
import unittest

import lockstep
from common import JOB, data

try:
    import numpy
except ImportError:
    numpy = None


class Arrays(unittest.TestCase):
    def test_sweep(self):
        rows = lockstep.sweep(**{**JOB, "tp": [1, 2, 3]})
        times = rows["step_time_s"]
        self.assertIsInstance(times, numpy.ndarray if numpy else array.array)
        self.assertEqual(times[1], lockstep.predict(**JOB).step_time_s)
        self.assertTrue(math.isnan(times[2]))
        self.assertEqual(list(rows["tp"]), [1, 2, 3])
        self.assertIsInstance(rows["verdict"], list)
        self.assertEqual(rows["verdict"][2], "refused")
        self.assertEqual([bool(one) for one in rows.fits], [verdict == "fits" for verdict in rows["verdict"]])
        self.assertEqual(rows[1]["step_time_s"], times[1])
        self.assertIsNone(rows[2]["step_time_s"])
        self.assertEqual([row["tp"] for row in rows], [1, 2, 3])
        self.assertEqual(list(dict(rows)), rows.keys())
        self.assertIs(rows["tp"], rows["tp"])
        with self.assertRaisesRegex(KeyError, "the columns are"):
            rows["no such"]
        with self.assertRaises(IndexError):
            rows[3]
        with self.assertRaises(IndexError):
            rows.prediction(3)
        self.assertIn("<table>", rows._repr_html_())

    def test_tables(self):
        kernels = lockstep.explain(data("trace_small.json")).kernels
        self.assertIsInstance(kernels["total_time_ns"], numpy.ndarray if numpy else array.array)
        self.assertIsInstance(kernels["name"], list)
        self.assertEqual(len(kernels), len(kernels["name"]))

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numbers_of_numpy_are_understood(self):
        rows = lockstep.sweep(**{**JOB, "tp": numpy.array([1, 2]), "gpus": numpy.int64(8), "moe_imbalance": None})
        self.assertEqual(len(rows), 2)
        self.assertEqual(lockstep.predict(**{**JOB, "tp": numpy.int32(2), "bucket": numpy.float32(40)}).layout.tp, 2)
        with self.assertRaises(lockstep.InputError):
            lockstep.predict(**{**JOB, "tp": numpy.float64("nan")})
        with self.assertRaises(lockstep.InputError):
            lockstep.predict(**{**JOB, "tp": numpy.bool_(True)})
        self.assertTrue(lockstep.predict(**JOB, exact=numpy.bool_(True)).fits)
        block = lockstep.Graph().block("b")
        self.assertEqual(block.op("elementwise", "a", bytes=numpy.float64(8)).to_json("x")["bytes"], 8)


if __name__ == "__main__":
    unittest.main()
