"""A second opinion on `lockstep explain -o json` of one Kineto trace, from Python's json and plain sets of intervals.

explain_oracle.py TRACE ALL.json STEPS.json: answers for the whole trace and for its steps. Prints what differs; the exit
status is 1 then.
"""
import gzip, json, re, statistics, sys
from decimal import Decimal

trace_path, all_path, steps_path = sys.argv[1:]
with (gzip.open if trace_path.endswith('.gz') else open)(trace_path, 'rt') as file:
    trace = json.load(file, parse_float=Decimal)
events = [e for e in (trace['traceEvents'] if isinstance(trace, dict) else trace) if e.get('ph') == 'X' and 'dur' in e]
wrong = 0


def same(what, ours, theirs, tolerance=0.0):
    global wrong
    ours = 0 if ours is None else ours
    if abs(ours - theirs) > tolerance * max(1, abs(theirs)):
        print(f'{trace_path}: {what}: lockstep {ours}, python {theirs}')
        wrong += 1


def ns(number):
    return int(Decimal(number) * 1000)


def span(e):
    return ns(e['ts']), ns(e['ts']) + ns(e['dur'])


def category(e):
    return str(e.get('cat', '')).lower()


def union(spans):
    out = []
    for a, b in sorted(spans):
        if a >= b:
            continue
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def measure(*sets):
    """How long each combination of the sets is active: {(True, False, ...): ns}, by one sweep over all ends."""
    edges = sorted((t, way, i) for i, s in enumerate(sets) for a, b in union(s) for t, way in ((a, 1), (b, -1)))
    active, last, out = [0] * len(sets), None, {}
    for t, way, i in edges:
        if last is not None and t > last:
            key = tuple(x > 0 for x in active)
            out[key] = out.get(key, 0) + t - last
        active[i] += way
        last = t
    return out


device = [e for e in events if category(e) in ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset')]
if not device:
    sys.exit(0)
launches = {}
for e in events:
    if category(e) in ('cuda_runtime', 'cuda_driver', 'runtime', 'hip_runtime') and e.get('args', {}).get('correlation'):
        launches.setdefault(int(e['args']['correlation']), e)


def kind(e):
    if category(e) != 'kernel':
        return 'MEMORY'
    comm = (re.search(r'nccl.*(Kernel|Dev)|cross_device_reduce|all_?reduce_(fusion_)?kernel', e['name'])
            or 'Collective name' in e.get('args', {}))
    return 'COMMUNICATION' if comm else 'COMPUTATION'


def breakdown(windows, row):
    window, kinds = union(windows), {k: [span(e) for e in device if kind(e) == k] for k in ('COMPUTATION', 'COMMUNICATION', 'MEMORY')}
    parts = {}
    for (inside, compute, comm, memory), length in measure(window, *kinds.values()).items():
        if not inside:
            continue
        part = 'compute' if compute else 'comm' if comm else 'memory' if memory else 'idle'
        parts[part] = parts.get(part, 0) + length
        if comm:
            parts['all_comm'] = parts.get('all_comm', 0) + length
        if comm and compute:
            parts['overlap'] = parts.get('overlap', 0) + length
    get = lambda name: parts.get(name, 0)
    same('kernel_time', row['kernel_time_ns'], sum(b - a for a, b in window))
    same('compute_time', row['compute_time_ns'], get('compute'))
    same('non_compute_time', row['non_compute_time_ns'], get('comm') + get('memory'))
    same('exposed communication', row['exposed_communication_ns'], get('comm'))
    same('idle_time', row['idle_time_ns'], get('idle'))
    same('parts', row['idle_time_ns'] + row['compute_time_ns'] + row['non_compute_time_ns'], row['kernel_time_ns'])
    idle = sum(row[k] for k in ('idle_data_loading_ns', 'idle_one_off_ns', 'idle_allocation_ns', 'idle_preprocessing_ns',
                                   'idle_checkpoint_ns', 'idle_garbage_ns', 'idle_computing_ns',
                                   'idle_sync_ns', 'idle_host_ns', 'idle_other_ns'))
    same('parts of idle', idle, row['idle_time_ns'])
    return get('overlap'), get('all_comm')


# The whole trace, as HTA looks at it: from the first to the last work of the device.
ours = json.load(open(all_path))
first, last = min(span(e)[0] for e in device), max(span(e)[1] for e in device)
overlap, comm = breakdown([(first, last)], ours['breakdown'][0])
if comm:
    same('comp_comm_overlap_pctg', ours['overlap'][0]['comp_comm_overlap_pctg'], 100 * overlap / comm, 1e-9)

# Kernels, as `nsys stats` counts them.
# A reader may cut names that are too long.
by_name, longest = {}, max(len(k['name']) for k in ours['kernels'])
for e in device:
    by_name.setdefault(e['name'][:longest], []).append(ns(e['dur']))
same('kernel names', len(ours['kernels']), len(by_name))
same('sum of dur', sum(k['total_time_ns'] for k in ours['kernels']), sum(map(sum, by_name.values())))
for k in ours['kernels']:
    theirs = by_name[k['name']]
    same('instances of ' + k['name'], k['instances'], len(theirs))
    for key, function in (('total_time_ns', sum), ('med_ns', statistics.median), ('min_ns', min), ('max_ns', max)):
        same(key + ' of ' + k['name'], k[key], function(theirs), 1e-12)
    if len(theirs) > 1:
        same('stddev of ' + k['name'], k['stddev_ns'], statistics.stdev(theirs), 1e-6)

# Gaps of streams, as HTA's idle time breakdown has them.
streams = {}
for e in device:
    streams.setdefault((e['args'].get('device'), e['args']['stream']), []).append(e)
for (_, stream), work in streams.items():
    work.sort(key=lambda e: (span(e)[0], -span(e)[1]))
    theirs, end = {'host_wait_ns': 0, 'kernel_wait_ns': 0, 'other_ns': 0}, span(work[0])[1]
    for e in work[1:]:
        start = span(e)[0]
        if start > end:
            call = launches.get(int(e['args'].get('correlation', 0)))
            late = call is not None and ns(call['ts']) > end
            theirs['host_wait_ns' if late else 'kernel_wait_ns' if start - end < 30000 else 'other_ns'] += start - end
        end = max(end, span(e)[1])
    rows = [r for r in ours['idle'] if r['stream'] == stream]
    for key, value in theirs.items():
        same(f'{key} of stream {stream}', rows[0][key], value)

# Modules: device work belongs to the innermost module around its launch, or around the forward operation whose gradient
# it is. A module that is called again in the backward pass stays where it is in the network.
CLASS = re.compile(r'(?:\w+\.)*?(_*[A-Z]\w*[a-z]\w*[A-Z][\w.]*)')


def module_of(e):
    if e['name'].startswith('nn.Module: '):
        return e['name'][11:]
    note = CLASS.fullmatch(e['name']) if category(e) == 'user_annotation' else None
    return note and not re.search('Optimizer|Backward|Profiler|DataLoader|Compiled', e['name']) and note.group(1)


def thread(e):
    return e['pid'], e['tid']


modules = sorted(((thread(e), *span(e), module_of(e)) for e in events if module_of(e)), key=lambda m: (m[1], -m[2]))
calls, home = [], {}
for on, begin, end, name in modules:
    above = [path for where, a, b, path in calls if where == on and a <= begin and end <= b]
    if above and name not in above[-1]:
        home.setdefault(name, above[-1] + (name,))
    path = home.get(name, (name,)) if not above else above[-1] + (name,)
    calls.append((on, begin, end, path))
calls = [(on, a, b, home.get(path[0], path[:1]) + path[1:]) for on, a, b, path in calls]


def module_at(e):
    inside = [path for on, a, b, path in calls if on == thread(e) and a <= ns(e['ts']) < b]
    return inside[-1] if inside else ()


numbered = [(thread(e), *span(e), int(e['args']['Sequence number']), int(e['args'].get('Fwd thread id', 0)), e)
            for e in events if category(e) in ('cpu_op', 'operator') and 0 <= int(e.get('args', {}).get('Sequence number', -1)) < 2**32]


def module_of_gradient(call):
    around = [n for n in numbered if n[0] == thread(call) and n[4] > 0 and n[1] <= ns(call['ts']) and span(call)[1] <= n[2]]
    if not around:
        return ()
    _, begin, _, number, _, _ = max(around, key=lambda n: (n[1], -n[2]))
    forward = [n for n in numbered if n[3] == number and n[4] == 0 and n[1] < begin]
    return module_at(max(forward, key=lambda n: n[1])[5]) if forward else ()


def path_of(path):
    out = []
    for name in path:
        name = re.sub(r'(?<=.)[_.]\d+$', '', name)
        out.append(name[len(out[-1]) + 1:] if out and name.startswith(out[-1] + '.') else name)
    return '/'.join(out)


if modules:
    theirs = {}
    for e in device:
        call = launches.get(int(e.get('args', {}).get('correlation', 0)))
        path = path_of((module_at(call) or module_of_gradient(call)) if call else ())
        theirs[path] = theirs.get(path, 0) + ns(e['dur'])
    rows = {row['path'] or '': row for row in ours['modules']}
    same('modules with work of their own', sum(row['own_s'] > 0 for row in rows.values()), len(theirs))
    for path, time in theirs.items():
        same('module ' + path, rows[path]['own_s'] if path in rows else -1, time * 1e-9, 1e-9)
    for row in ours['modules']:
        inside = sum(time for path, time in theirs.items() if (path + '/').startswith((row['path'] or '') + '/'))
        same('module with those in it ' + str(row['path']), row['time_s'], inside * 1e-9, 1e-9)

# Steps, where they are marked: their windows, and how long they are.
notes = sorted({span(e) + (e['name'],) for e in events if e['name'].startswith('ProfilerStep#') and category(e) == 'user_annotation'})
if len(notes) > 1:
    ours = json.load(open(steps_path))
    breakdown([(a, b) for a, b, _ in notes], ours['breakdown'][0])
    same('steps', ours['step_count'], len(notes))
    same('mean step', ours['step_s'], statistics.mean(b - a for a, b, _ in notes) * 1e-9, 1e-9)
    for row, (a, b, _) in zip(ours['steps'], notes):
        same('step time', row['dur_ns'], b - a)
        same('parts of a step', sum(row[k] for k in ('compute_ns', 'exposed_communication_ns', 'exposed_memory_ns', 'idle_ns')), b - a)
sys.exit(wrong > 0)
