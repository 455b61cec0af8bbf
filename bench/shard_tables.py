#!/usr/bin/env python3
"""Tables for `lockstep shard`, drawn at random: shard_tables.py COUNT [SEED] > tables.csv

Rows and pooling log-normal (medians 100,000 and 6), dims 32 to 256, skew 0 to 1.05.
"""
import math
import random
import sys


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    draw = random.Random(seed)
    print("name,rows,dim,pooling,skew")
    for i in range(count):
        rows = int(min(max(math.exp(draw.gauss(math.log(1e5), 2.2)), 100), 5e7))
        pooling = max(1, round(math.exp(draw.gauss(math.log(6), 1.1))))
        print(f"t{i},{rows},{draw.choice([32, 64, 128, 256])},{min(pooling, 200)},{1.05 * draw.random():.2f}")


main()
