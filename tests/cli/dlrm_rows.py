#!/usr/bin/env python3
"""The measured steps of recommendation models on one GPU, through predict. Usage: dlrm_rows.py PROGRAM TABLE."""
import csv, json, math, subprocess, sys

program, table = sys.argv[1:3]
GPUS = {"V100": "v100-sxm-16", "P100": "p100-pcie-16", "Titan Xp": "titan-xp"}
with open(table) as file:
    rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
errors, inside = [], 0
for row in rows:
    said = json.loads(subprocess.run([program, "predict", "--model", row["model"], "--gpu", GPUS[row["gpu"]], "--gpus", "1", "--gbs",
                                      row["batch_size"], "-o", "json"], stdout=subprocess.PIPE, text=True).stdout)
    measured = float(row["measured_iter_ms_digitised"]) * 1e-3
    errors.append(abs(math.log(said["step_time_s"] / measured)))
    inside += said["step_time_low_s"] <= measured <= said["step_time_high_s"]
error, share = math.expm1(sum(errors) / len(errors)), inside / len(errors)
print(f"{len(rows)} rows: error {'below' if error < 0.12 else 'NOT below'} 12 %, "
      f"{'70 to 90 %' if 0.7 <= share <= 0.9 else f'{share:.0%}'} inside the range")
