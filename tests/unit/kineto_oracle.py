#!/usr/bin/env python3
"""A second opinion on Kineto's JSON, by python's json: prints what test_kineto.c prints of the same file."""
import decimal
import gzip
import json
import os
import re
import sys
import zlib

KINDS = ['OP', 'NOTE', 'RUNTIME', 'KERNEL', 'MEMCPY', 'MEMSET', 'SYNC']
CATEGORIES = {'cpu_op': 0, 'operator': 0, 'user_annotation': 1, 'cuda_runtime': 2, 'cuda_driver': 2, 'runtime': 2,
              'kernel': 3, 'gpu_memcpy': 4, 'memcpy': 4, 'gpu_memset': 5, 'memset': 5, 'cuda_sync': 6}
BYTES = {'float': 4, 'long': 8, 'long int': 8, 'int': 4, 'signed char': 1, 'unsigned char': 1, 'byte': 1, 'half': 2, 'c10::bfloat16': 2,
         'bfloat16': 2, 'double': 8}


# Functions of Python that are kept, as annotations: rows of a table.
with open(os.path.join(os.path.dirname(__file__), '../../src/trace/capture/host_names.c')) as table:
    FUNCTIONS = re.findall(r'X\("([^"]+)", (?:NULL|"([^"]*)"), LK_HOST_\w+\)', table.read())


def kind_of(event):
    category = event.get('cat', '').lower()
    function = re.match(r'(.*\): )(\S+)$', event.get('name', '')) if category == 'python_function' else None
    if function and not function[2].startswith('compiled') and any(
            function[2].startswith(name) and path in function[1] for name, path in FUNCTIONS):
        return 1
    return CATEGORIES.get(category)


def ns(us):
    return int((decimal.Decimal(us) * 1000).to_integral_value(decimal.ROUND_HALF_UP))


def product(dims):
    result = 1
    for n in dims:
        result *= n
    return result


def main(path):
    decimal.getcontext().prec = 60
    with gzip.open(path) as file:
        data = json.loads(file.read(), strict=False, parse_float=decimal.Decimal)
    events = [e for e in data['traceEvents']
              if e.get('ph') == 'X' and 'dur' in e and kind_of(e) is not None]
    first = min(ns(e['ts']) for e in events)
    for kind, name in enumerate(KINDS):
        mine = [e for e in events if kind_of(e) == kind]
        print(name, len(mine), sum(ns(e['dur']) for e in mine), sum(ns(e['ts']) - first for e in mine),
              sum(zlib.crc32(e['name'].encode()) for e in mine))
    runtime = {e['args']['correlation']: e for e in reversed(events) if kind_of(e) == 2 and e['args'].get('correlation')}
    device = [e for e in events if kind_of(e) in (3, 4, 5)]
    print('joined', sum(e['args'].get('correlation') in runtime for e in device))
    annotations = [e for e in events if kind_of(e) == 1 and e['name'].startswith('nccl:')]
    kernels = [e for e in device if e['name'].startswith('nccl') or 'all_reduce_kernel' in e['name']]
    elements = size = 0
    for kernel in kernels:
        if 'In msg nelems' in kernel['args']:
            elements += kernel['args']['In msg nelems']
            size += kernel['args']['In msg nelems'] * BYTES[kernel['args']['dtype'].lower()]
            continue
        call = runtime.get(kernel['args'].get('correlation'))
        if not call:  # launched by a call that the trace does not have
            continue
        cause = [a for a in annotations if a['tid'] == call['tid'] and a['ts'] <= call['ts'] and call['ts'] + call['dur'] <= a['ts'] + a['dur']]
        if cause and cause[-1]['args'].get('Input type'):
            count = sum(product(dims) for dims in cause[-1]['args']['Input Dims'])
            elements += count
            size += count * BYTES[cause[-1]['args']['Input type'][0].lower()]
    print('nccl', len(kernels), elements, size)


main(sys.argv[1])
