"""Which part of its cases a script takes: ./check sets LOCKSTEP_TURN by the commit, and LOCKSTEP_PARTS, so that as many commits as
there are parts take all cases. Without a turn, and with LOCKSTEP_LONG=1, all."""
import os

turn = int(os.environ.get("LOCKSTEP_TURN") or "0")
parts = int(os.environ.get("LOCKSTEP_PARTS") or "1")
if not os.environ.get("LOCKSTEP_TURN") or os.environ.get("LOCKSTEP_LONG"):
    parts = 1


def its_turn(number):
    return number % parts == turn % parts


def of_turn(cases):
    return cases[turn % parts::parts]
