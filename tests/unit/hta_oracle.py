"""HolisticTraceAnalysis (HTA) beside `lockstep explain --steps all -o json`, from HTA's published definitions.

  hta_oracle.py compare TRACE ANSWER.json ...   what lockstep says must be HTA's to the nanosecond, but for the ways named below
  hta_oracle.py document PAGE TRACE ...             the page has the rows of these traces
  hta_oracle.py table TRACE ...    rows of docs/accuracy/hta.md
  hta_oracle.py random FOLDER COUNT SEED        writes random traces, FOLDER/N.json

The definitions (facebookresearch/HolisticTraceAnalysis, hta/analyzers/breakdown_analysis.py, communication_analysis.py, common/trace.py,
common/trace_parser.py, utils/utils.py): work of the device is every event with a stream; the breakdown is a union of intervals; idle time
of a stream is the sum of what lies between the end of one event and the start of the next one. HTA does five things in other ways than
lockstep; each is a switch here, and a difference is explained by the switches that change the answer.
"""
import gzip, json, os, random, re, sys
from decimal import Decimal, ROUND_CEILING, ROUND_FLOOR

WAYS = {
    'other events': 'waits, operators and calls that name a stream count as work of the device',
    'last step': 'without the work of the last of several steps, and then without that of streams 0',
    'whole us': 'times in fractions of a microsecond are rounded: starts up, ends down',
    'names': 'communication is what is named nccl...Kernel; all else that is no copy computes',
    'last end': 'a gap begins at the end of the event before, though an earlier one may still run; overlap counts as a negative gap',
}
DEVICE = ('kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset')
KERNEL_WAIT = 30000  # HTA compares its 30 with microseconds


def read(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt') as file:
        trace = json.load(file, parse_float=Decimal, strict=False)
    events = trace['traceEvents'] if isinstance(trace, dict) else trace
    return [e for e in events if isinstance(e, dict) and e.get('ph') == 'X' and 'dur' in e and 'ts' in e and e.get('cat') is not None]


def argument(e, name, default=None):
    return e['args'].get(name, default) if isinstance(e.get('args'), dict) else default


def category(e):
    return str(e['cat']).lower()


def union(spans):
    out = []
    for a, b in sorted(s for s in spans if s[0] < s[1]):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def length(spans):
    return sum(b - a for a, b in union(spans))


def both(one, two):
    """How long both are active: what they have, less what either has."""
    return length(one) + length(two) - length(one + two)


def times(e, whole):
    start, end = Decimal(e['ts']) * 1000, (Decimal(e['ts']) + Decimal(e['dur'])) * 1000
    if whole:
        return (int((start / 1000).to_integral_value(ROUND_CEILING)) * 1000, int((end / 1000).to_integral_value(ROUND_FLOOR)) * 1000)
    start = int(start)
    return start, start + int(Decimal(e['dur']) * 1000)


def kind(e, names):
    name = str(e.get('name'))
    if names:
        return 'comm' if re.match('nccl.*Kernel', name) else 'memory' if re.match('Memcpy|Memset|dma', name) else 'compute'
    if category(e) != 'kernel':
        return 'memory' if category(e) in DEVICE else 'compute'
    comm = re.search(r'nccl.*(Kernel|Dev)|cross_device_reduce|all_?reduce_(fusion_)?kernel', name) or argument(e, 'Collective name') is not None
    return 'comm' if comm else 'compute'


def analyse(events, ways):
    """{kernel_time, compute, non_compute, idle, comm, overlap: ns, (stream, class): ns}; None: the device does nothing."""
    whole = 'whole us' in ways and any(isinstance(e['ts'], Decimal) for e in events)
    calls = {}
    for e in events:
        if category(e) in ('cuda_runtime', 'cuda_driver', 'runtime', 'hip_runtime') and argument(e, 'correlation'):
            calls.setdefault(int(argument(e, 'correlation')), e)
    streams = [e for e in events if int(argument(e, 'stream', -1) if str(argument(e, 'stream', -1)).lstrip('-').isdigit() else -1) != -1]
    work = streams if 'other events' in ways else [e for e in events if category(e) in DEVICE]
    steps = [e for e in events if str(e.get('name')).startswith('ProfilerStep') and argument(e, 'stream', -1) == -1]
    if 'last step' in ways and len({e['name'] for e in steps}) > 1:
        last = max(times(e, whole)[0] for e in steps)
        launched = {argument(e, 'correlation') for e in events if argument(e, 'stream', -1) == -1 and times(e, whole)[0] < last}
        work = [e for e in work if int(argument(e, 'stream', -1)) > 0 and argument(e, 'correlation', -1) in launched]
    if not work:
        return None
    spans, kinds = [times(e, whole) for e in work], [kind(e, 'names' in ways) for e in work]
    out = {'kernel_time': max(b for _, b in spans) - min(a for a, _ in spans)}
    compute, comm = ([s for s, k in zip(spans, kinds) if k == wanted] for wanted in ('compute', 'comm'))
    out['idle'] = out['kernel_time'] - length(spans)
    out['compute'] = length(compute)
    out['non_compute'] = out['kernel_time'] - out['idle'] - out['compute']
    out['comm'] = length(comm)
    out['overlap'] = both(compute, comm)
    lanes = {}
    for e, s in zip(work, spans):
        lanes.setdefault((argument(e, 'device'), argument(e, 'stream')), []).append((s, e))
    for (_, stream), lane in lanes.items():
        lane.sort(key=lambda one: (one[0][0], -one[0][1]))
        end = lane[0][0][1]
        for (a, b), e in lane[1:]:
            call = calls.get(int(argument(e, 'correlation', 0)))
            late = call is not None and times(call, whole)[0] > end
            if a != end and (a > end or 'last end' in ways):
                key = stream, 'host_wait' if late else 'kernel_wait' if a - end < KERNEL_WAIT else 'other'
                out[key] = out.get(key, 0) + a - end
            end = b if 'last end' in ways else max(end, b)
    return out


def said(answer):
    """The same of lockstep's answer."""
    row, overlap = answer['breakdown'][0], (answer.get('overlap') or [{}])[0]
    out = {'kernel_time': row['kernel_time_ns'], 'idle': row['idle_time_ns'], 'compute': row['compute_time_ns'],
           'non_compute': row['non_compute_time_ns'], 'share': overlap.get('comp_comm_overlap_pctg')}
    for row in answer['idle']:
        for name in ('host_wait', 'kernel_wait', 'other'):
            if row[name + '_ns']:
                out[row['stream'], name] = row[name + '_ns']
    return out


def classes(result):
    """Idle time of all streams by its class."""
    return [sum(v for k, v in result.items() if isinstance(k, tuple) and k[1] == name) for name in ('host_wait', 'kernel_wait', 'other')]


def compare(path, answer):
    events, ours, wrong = read(path), said(answer), 0
    theirs = analyse(events, ())
    if theirs is None:
        return 0
    keys = {k for k in list(ours) + list(theirs) if isinstance(k, tuple)} | {'kernel_time', 'idle', 'compute', 'non_compute'}
    for key in sorted(keys, key=str):
        if ours.get(key, 0) != theirs.get(key, 0):
            print(f'{path}: {key}: lockstep {ours.get(key, 0)} ns, by HTA\'s definitions {theirs.get(key, 0)} ns')
            wrong += 1
    share = 100 * theirs['overlap'] / theirs['comm'] if theirs['comm'] else None
    if share is not None and abs((ours['share'] or 0) - share) > 1e-9:
        print(f'{path}: overlap: lockstep {ours["share"]} %, by HTA\'s definitions {share} %')
        wrong += 1
    return wrong


def figures(result):
    share = f'{100 * result["overlap"] / result["comm"]:.2f}' if result['comm'] else ''
    return [f'{result[k] / 1000:.0f}' for k in ('kernel_time', 'compute', 'non_compute', 'idle')] + [share] + [f'{v / 1000:.0f}' for v in classes(result)]


def table(path):
    """Two rows where they differ, one where all figures are equal to the microsecond."""
    events, name = read(path), '/'.join(path.split('/')[-3:]).replace('.json.gz', '').replace('traces/', '')
    ours, theirs = analyse(events, ()), analyse(events, WAYS)
    if ours is None:
        return f'| {name} | no work of a device | | | | | | | | |'
    why = []
    for way in WAYS:  # one that makes a difference by itself, or in HTA's company
        if analyse(events, (way,)) != ours or analyse(events, [w for w in WAYS if w != way]) != theirs:
            why.append(way)
    if theirs is None:
        return f'| {name} | lockstep | {" | ".join(figures(ours))} |\n| {", ".join(why)} | HTA | nothing is left | | | | | | | |'
    if figures(ours) == figures(theirs):
        return f'| {name} | both | {" | ".join(figures(ours))} |'
    return f'| {name} | lockstep | {" | ".join(figures(ours))} |\n| {", ".join(why)} | HTA | {" | ".join(figures(theirs))} |'


def write_random(folder, count, seed):
    """Streams that overlap, kernels of all kinds, calls before and after the work, gaps about the bounds of the classes."""
    names = ['gemm', 'ncclDevKernel_AllReduce_Sum_f16', 'ncclKernel_AllGather', 'elementwise', 'all_reduce_kernel<float>']
    for number in range(count):
        draw = random.Random(seed + number)
        events, correlation = [], 1
        fractions = draw.random() < .5
        time = lambda t: t / 1000 if fractions else t // 1000
        for stream in range(7, 7 + draw.randint(1, 3)):
            now = draw.randrange(10 ** 6, 2 * 10 ** 6)
            for _ in range(draw.randint(1, 30)):
                now += draw.choice([0, 0, 1000, 29000, 30000, 31000, 5000, 200000, -3000, draw.randrange(100000)])
                lasts = draw.choice([0, 1000, 7000, 50000, draw.randrange(200000)]) if correlation > 1 else 1000
                cat, name = draw.choice([('kernel', draw.choice(names)), ('gpu_memcpy', 'Memcpy HtoD'), ('gpu_memset', 'Memset (Device)')])
                if draw.random() < .8:
                    call = now - draw.choice([0, 1000, 10000, 100000, 300000])
                    events.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': time(call), 'dur': 1,
                                   'args': {'correlation': correlation}})
                events.append({'ph': 'X', 'cat': cat, 'name': name, 'pid': 0, 'tid': stream, 'ts': time(now), 'dur': time(lasts),
                               'args': {'device': 0, 'stream': stream, 'correlation': correlation}})
                correlation += 1
                now += lasts
        draw.shuffle(events)
        with open(os.path.join(folder, f'{number}.json'), 'w') as file:
            json.dump({'traceEvents': events}, file)


if __name__ == '__main__':
    if sys.argv[1] == 'random':
        write_random(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == 'document':
        page = open(sys.argv[2]).read()
        missing = [row for one in sys.argv[3:] for row in table(one).split('\n') if row not in page]
        print('\n'.join(f'{sys.argv[2]} lacks: {row}' for row in missing))
        sys.exit(len(missing) > 0)
    elif sys.argv[1] == 'table':
        for one in sys.argv[2:]:
            print(table(one))
    else:
        pairs = zip(sys.argv[2::2], sys.argv[3::2])
        sys.exit(sum(compare(one, json.load(open(answer))) for one, answer in pairs) > 0)
