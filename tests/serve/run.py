"""run.py: all tests of this folder, in threads by class: most of their time they wait. Ends with a count."""
import concurrent.futures
import os
import resource
import sys
import unittest

# What takes long on two processors does so on this machine.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
# Hundreds of connections are held at a time.
usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
if 0 <= usual < 4096:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096 if most == resource.RLIM_INFINITY else min(most, 4096), most))
folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, folder)


def classes(suite):
    """Suites of one class each: those share what setUpClass made."""
    for part in suite:
        tests = list(part)
        if tests and not isinstance(tests[0], unittest.TestSuite):
            yield part
        elif tests:
            yield from classes(part)


def run(suite):
    result = unittest.TestResult()
    result.failfast = False
    suite.run(result)
    return result


names = sys.argv[1:]
loader = unittest.defaultTestLoader
found = loader.loadTestsFromNames(names) if names else loader.discover(folder)
suites = list(classes(unittest.TestSuite([found]))) if not names else [found]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    results = list(pool.map(run, suites))
ran = failed = skipped = 0
for result in results:
    ran += result.testsRun
    failed += len(result.failures) + len(result.errors)
    skipped += len(result.skipped)
    for test, text in result.failures + result.errors:
        print("FAIL %s\n%s" % (test, text))
    for test, why in result.skipped:
        print("skipped %s: %s" % (test, why))
print("serve: %d passed, %d failed, %d skipped" % (max(ran - failed - skipped, 0), failed, skipped))
sys.exit(failed > 0 or ran == 0)
