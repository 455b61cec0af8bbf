"""Random documents in the forms that lockstep reads, and what Python's own readers find in them.

readers_oracle.py KIND COUNT SEED FILE: KIND is csv, gzip, zstd, zip, tar, yaml, toml or pickle. Each line of FILE holds a document and what is in
it, both in hexadecimal; `error`: it is refused. Values of YAML and TOML are written as tests/unit/test_readers.c does.
"""
import binascii, csv, datetime, gzip, io, pickle, random, re, shutil, struct, subprocess, sys, tarfile, tomllib, zipfile, zlib

draw = random.Random()
TEXTS = ['a', 'step', ' ', 'x y', 'ü', '€', '😀', '0', '1.5', 'true', 'no', 'null', '~', '-', '#', ': ', 'a: b', '[', '{', '"', "'", '\\', '\t', '\n', '*', '&', '!', '|',
         '>', '%', '@', '`', ',', '?', '010', '1e-5', '=', '<<', '...', '---', '']


def text(most=4):
    return ''.join(draw.choice(TEXTS) for _ in range(draw.randrange(most)))


# ---- values ----

def say(value):
    """One line that says what a value is: numbers as their bits, texts in hexadecimal."""
    if value is None:
        return '0,'
    if isinstance(value, bool):
        return 't,' if value else 'f,'
    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            number = float('inf') if value > 0 else float('-inf')
        return 'n7ff8000000000000,' if number != number else 'n' + struct.pack('>d', number + 0.0).hex() + ','
    if isinstance(value, dict):
        return '{,' + ''.join('k' + str(k).encode().hex() + ',' + say(v) for k, v in sorted(value.items(), key=lambda one: str(one[0]).encode())) + '},'
    if isinstance(value, (list, tuple)):
        return '[,' + ''.join(map(say, value)) + '],'
    if isinstance(value, (datetime.date, datetime.time)):
        value = value.isoformat()
    return 's' + str(value).encode('utf-8', 'replace').hex() + ','


def number():
    return draw.choice([0, 1, -1, 8, 4096, 10 ** 9, 0.5, -2.25, 1e-5, 3e38, float('inf'), draw.randrange(-10 ** 6, 10 ** 6), draw.random()])


def value(depth, nothing=True):
    kind = draw.randrange(8 if depth else 4)
    if kind == 0:
        return number()
    if kind == 1:
        return draw.choice([True, False] + [None] * nothing)
    if kind < 4:
        return text()
    count = draw.randrange(4)
    if kind < 6:
        return [value(depth - 1, nothing) for _ in range(count)]
    return {key(): value(depth - 1, nothing) for _ in range(count)}


def key():
    return draw.choice(['a', 'b', 'model', 'lr', 'x-y', 'k1', 'tensor_parallel_size', 'a b', 'é', 'q"', "it's", '#', 'n.m', text(3) or 'e'])


def damage(data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 3)):
        at = draw.randrange(len(data) + 1)
        what = draw.randrange(3)
        if what == 0 and data:
            del data[at:at + 1]
        elif what == 1:
            data[at:at] = draw.choice([b'"', b'\n', b' ', b':', b'[', b'}', b'=', b',', b'\t', b'#', b'\\', b"'", b'-'])
        else:
            del data[at:]
    return bytes(data)


# ---- YAML ----

def yaml_loader():
    """PyYAML's safe loader, but that 1e5 is a number, and that times, dates and 1:30 are texts, as lockstep says."""
    import yaml

    class Loader(getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):
        def construct_mapping(self, node, deep=False):
            """A key that is no text is named by what is written."""
            self.flatten_mapping(node)
            return {key.value if isinstance(key, yaml.ScalarNode) else self.construct_object(key, deep=True): self.construct_object(item, deep=deep)
                    for key, item in node.value}
    Loader.yaml_implicit_resolvers = {k: [(tag, rule) for tag, rule in v if tag.rsplit(':', 1)[1] not in ('timestamp', 'float', 'int')]
                                      for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(
        r'^(?:[-+]?(?:(?:[1-9][0-9_]*|0)\.[0-9_]*|[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[1-9][0-9_]*|0|0[0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$'),
        list('-+0123456789.'))
    Loader.add_implicit_resolver('tag:yaml.org,2002:int', re.compile(
        r'^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$'), list('-+0123456789'))
    for first, rules in Loader.yaml_implicit_resolvers.items():
        rules.sort(key=lambda rule: rule[0].endswith('float'))
    return yaml, Loader


SNIPPETS = ['base: &base {a: 1, b: [x, y]}\none:\n  <<: *base\n  a: 2\n', 'a: &x\n  k: 1\nb: &y\n  k: 2\n  l: 3\nc:\n  <<: [*x, *y]\n  m: 4\n',
            'text: |\n  one\n   two\n\n  three\n', 'text: |-\n  one\n', 'text: |+\n  one\n\n\nnext: 1\n', 'text: >\n  one\n  two\n\n  three\n    four\n  five\n', 'text: >-\n  a\n  b\n',
            'text: |2\n    x\n  y\n', 'plain: one two\n  three\n\n  four\n', '# comment\na: 1 # more\n"b" : \'it\'\'s\'\n', 'list:\n- a\n- - b\n  - c\n-\n  d: 1\n  e: 2\n- {f: g, h: }\n',
            'f: [a, "b, c", {d: e}, [ ] , {}]\n', '? key\n: value\n? [x]\n', 'a: "x\\ty\\u00e9\\x41\\\n  z"\nb: "one\n  two"\n', "c: 'one\n  two'\n", '--- \na: 1\n...\n---\nb: 2\n',
            '%YAML 1.1\n---\na: 1\n', 'n: [0, 010, 08, 0x1F, 0b101, 1_000, +5, -0, .5, 1., 1.5e3, 1e5, 1.0e-5, .inf, -.INF, .nan, 1:30, 12:30:45, 1_0.5, 0x, 0b2, 1__0]\n',
            'b: [yes, No, TRUE, off, on, y, n, ~, Null, NULL, null, "", nul, yEs]\n', 'd: [2001-12-14, 2001-12-14t21:59:43.10-05:00]\n', '- !!str 5\n- !!int "7"\n- !!float 1\n- !!bool "yes"\n- !!null ""\n- !custom x\n' ,
            'a: !!str yes\nb: ! 12\n', 'x: &a [1, *a]\n'[:0] + 'x: &a 5\ny: *a\n', '"quoted key": 1\n? |\n  block key\n: 2\n', 'a:\n  - b\n  - c: d\n    e: f\n  -\n', 'empty:\nother: ""\n', '\ufeffa: 1\n']


def make_yaml():
    yaml, loader = make_yaml.loaded
    if draw.random() < .3:
        document = ''.join(draw.sample([s for s in SNIPPETS if s[0] not in '-%'], draw.randrange(1, 3))) if draw.random() < .5 else draw.choice(SNIPPETS)
    else:
        document = yaml.safe_dump(value(4), default_flow_style=draw.choice([True, False, None]), width=draw.choice([10, 80, 1000]), indent=draw.choice([2, 4]),
                                  allow_unicode=draw.random() < .5, explicit_start=draw.random() < .2, default_style=draw.choice([None, None, '"', "'", '|', '>']), sort_keys=False)
        if re.search(r'!!(timestamp|binary|set)', document):
            return make_yaml()
    data = document.encode()
    if draw.random() < .3:
        data = damage(data)
    try:
        damaged = data != document.encode()
        if damaged and re.search(rb'!', data):
            return None  # tags that damage made, and numbers that it changed: Python's int takes more forms than YAML's
        if b'\\0' in data or b'\\x0' in data:
            return None  # a NUL, which is refused
        first = next(iter(yaml.load_all(data, loader)), None)
        return data, say(first)
    except (yaml.constructor.ConstructorError, ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError, IndexError):
        return None  # what is refused for what its values are to Python
    except yaml.YAMLError:
        return data, 'error'


# ---- TOML ----

def toml_key(one):
    return one if re.fullmatch(r'[A-Za-z0-9_-]+', one) and draw.random() < .9 else toml_text(one, False)


def toml_text(one, lines=True):
    if draw.random() < .3 and "'" not in one and '\n' not in one and '\t' not in one:
        return "'" + one + "'"
    if lines and draw.random() < .3 and "''" not in one and not one.endswith("'"):
        return "'''\n" + one + "'''" if draw.random() < .5 else '"""\n' + one.replace('\\', '\\\\').replace('"', '\\"') + '"""'
    table = {'\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t'}
    return '"' + ''.join(table.get(c, f'\\u{ord(c):04x}' if ord(c) < 0x10000 and draw.random() < .2 else c) for c in one) + '"'


def toml_value(one):
    if isinstance(one, bool):
        return 'true' if one else 'false'
    if isinstance(one, int):
        return draw.choice([f'{one}', f'{one:+}', f'{one:_}', f'0x{one:X}' if one >= 0 else f'{one}', f'0o{one:o}' if one >= 0 else f'{one}', f'0b{one:b}' if one >= 0 else f'{one}'])
    if isinstance(one, float):
        return repr(one) if '.' in repr(one) or 'e' not in repr(one) else repr(one)
    if isinstance(one, str):
        return toml_text(one)
    if isinstance(one, list):
        gap = draw.choice(['', ' ', '\n  ', ' # more, ]\n'])
        return '[' + gap + (',' + gap).join(toml_value(x) for x in one) + draw.choice(['', ',' if one else '']) + gap + ']'
    return '{' + ', '.join(f'{toml_key(k)} = {toml_value(v)}' for k, v in one.items()) + '}'


def make_toml():
    lines, root = [], {key(): value(2, False) for _ in range(draw.randrange(4))}
    for k, v in root.items():
        if isinstance(v, dict) and draw.random() < .5 and v:
            for a, b in v.items():
                lines.append(f'{toml_key(k)} . {toml_key(a)} = {toml_value(b)}')
        else:
            lines.append(f'{toml_key(k)}{draw.choice(["=", " = "])}{toml_value(v)}{draw.choice(["", " # c", "  "])}')
    if draw.random() < .3:
        lines.append(draw.choice(['d = 1979-05-27', 't = 07:32:00', 'x = """a \\\n   b"""', "y = '''it''s'''", 'z = """"q""""', 'i = [inf, -inf, nan, 1e3, 6.02E+23]', 'e = ""', '"" = 1', '1234 = 5', '3.14 = "pi"']))
    for _ in range(draw.randrange(3)):
        name = '.'.join(toml_key(key()) for _ in range(draw.randrange(1, 3)))
        lines.append(draw.choice([f'[{name}]', f'[[{name}]]', f'[ {name} ]']))
        lines += [f'{toml_key(k)} = {toml_value(value(2, False))}' for k in {key() for _ in range(draw.randrange(3))}]
    data = draw.choice(['\n', '\n', '\r\n']).join(lines + ['']).encode()
    if draw.random() < .3:
        data = damage(data)
    try:
        return data, say(tomllib.loads(data.decode('utf-8')))
    except UnicodeDecodeError:
        return None
    except tomllib.TOMLDecodeError:
        # inline tables of several lines, and \e, are TOML 1.1, which lockstep reads
        return None if b'{' in data or b'\\e' in data else (data, 'error')
    except (ValueError, RecursionError):
        return None


# ---- CSV ----

def make_csv():
    columns = draw.randrange(1, 6)
    rows = [[f'c{i}' + text(2).replace('\n', '') for i in range(columns)]] + [[text() for _ in range(columns)] for _ in range(draw.randrange(20))]
    out = io.StringIO()
    writer = csv.writer(out, quoting=draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), lineterminator=draw.choice(['\r\n', '\n']))
    for row in rows:
        if row[0].startswith('#') or not ''.join(row):
            row[0] = 'x' + row[0]
        writer.writerow(row)
    data = draw.choice([b'', b'\xef\xbb\xbf']) + out.getvalue().encode()
    if draw.random() < .2:
        data = data.rstrip(b'\r\n')
    again = list(csv.reader(io.StringIO(data.decode('utf-8-sig'), newline='')))
    return data, '\x1e'.join('\x1f'.join(row) for row in again).encode()


# ---- compression ----

def content():
    data = b''.join(draw.choice([b'', b'a', b'\0' * 300, b'lockstep ' * draw.randrange(200), draw.randbytes(draw.randrange(200))]) for _ in range(draw.randrange(4)))
    return data if data[:2] != b'\x1f\x9d' else b'a' + data  # what compress writes is refused by its first bytes


def gzip_member(data):
    flags, rest = 0, b''
    if draw.random() < .3:
        extra = struct.pack('<2sH', b'LK', 5) + b'extra'
        flags, rest = flags | 4, rest + struct.pack('<H', len(extra)) + extra
    if draw.random() < .3:
        flags, rest = flags | 8, rest + b'name.json\0'
    if draw.random() < .3:
        flags, rest = flags | 16, rest + b'a comment\0'
    flags |= draw.choice([0, 1])
    packer = zlib.compressobj(draw.randrange(10), zlib.DEFLATED, -draw.randrange(9, 16))
    head = b'\x1f\x8b\x08' + bytes([flags | 2 if draw.random() < .4 else flags & ~2]) + struct.pack('<IBB', draw.choice([0, 1700000000]), draw.choice([0, 2, 4]), draw.choice([3, 255])) + rest
    if head[3] & 2:
        head += struct.pack('<H', zlib.crc32(head) & 0xffff)
    return head + packer.compress(data) + packer.flush() + struct.pack('<II', zlib.crc32(data), len(data) & 0xffffffff)


def make_gzip():
    parts = [content() for _ in range(draw.randrange(1, 4))]
    data = b''.join(map(gzip_member, parts)) + b'\0' * draw.choice([0, 0, 1, 512])
    if draw.random() < .2:
        at = draw.randrange(len(data))
        data = data[:at] if draw.random() < .5 else data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]
        if data[:3] != b'\x1f\x8b\x08':
            return None
    try:  # zlib, unlike gzip, compares the checksum of a header
        rest, out = data, b''
        while rest.strip(b'\0'):
            unpack = zlib.decompressobj(31)
            out += unpack.decompress(rest)
            if not unpack.eof:
                return data, 'error'
            rest = unpack.unused_data
        assert out == gzip.decompress(data)
        return data, out
    except zlib.error as error:
        return None if 'unknown header flags' in str(error) else (data, 'error')  # ISA-L passes over them


def xxh64(data):
    p1, p2, p3, p4, p5 = 11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261
    mask = 2 ** 64 - 1
    turn = lambda x, n: (x << n | x >> 64 - n) & mask
    step = lambda acc, lane: turn((acc + lane * p2) & mask, 31) * p1 & mask
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= size:
            for i in range(4):
                lanes[i] = step(lanes[i], struct.unpack_from('<Q', data, at + 8 * i)[0])
            at += 32
        hashed = sum(turn(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            hashed = ((hashed ^ step(0, lane)) * p1 + p4) & mask
    else:
        hashed = p5
    hashed = (hashed + size) & mask
    while at + 8 <= size:
        hashed = (turn(hashed ^ step(0, struct.unpack_from('<Q', data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= size:
        hashed = (turn(hashed ^ struct.unpack_from('<I', data, at)[0] * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        hashed = turn(hashed ^ byte * p5 & mask, 11) * p1 & mask
    hashed = (hashed ^ hashed >> 33) * p2 & mask
    hashed = (hashed ^ hashed >> 29) * p3 & mask
    return hashed ^ hashed >> 32


def zstd_frame(data):
    """A frame of stored and repeated blocks (RFC 8878), or one that the program zstd packs."""
    if draw.random() < .1 and shutil.which('zstd'):
        return subprocess.run(['zstd', '-q', '-c', f'-{draw.randrange(1, 19)}', draw.choice(['--no-check', '--check']), f'--zstd=wlog={draw.randrange(10, 28)}'], input=data, stdout=subprocess.PIPE,
                              check=True).stdout
    check, single = draw.random() < .5, draw.random() < .5
    sized = 0 if single and len(data) < 256 else draw.choice([2, 3]) if single or draw.random() < .5 else 0
    head = bytes([sized << 6 | single << 5 | check << 2])
    if not single:
        head += bytes([draw.randrange(0, 17) << 3 | draw.randrange(8)])  # windows of 1 KiB to 120 MiB
    if sized or single:
        head += {0: lambda: struct.pack('<B', len(data)), 2: lambda: struct.pack('<I', len(data)), 3: lambda: struct.pack('<Q', len(data))}[sized]()
    blocks, at = [], 0
    while at < len(data):
        size = min(len(data) - at, draw.choice([1, 100, 1000]))
        piece = data[at:at + size]
        blocks.append((1, size, piece[:1]) if len(set(piece)) == 1 else (0, size, piece))
        at += size
    if not blocks or draw.random() < .2:
        blocks.append((0, 0, b''))
    out = b''.join(struct.pack('<I', (i == len(blocks) - 1) | kind << 1 | size << 3)[:3] + piece for i, (kind, size, piece) in enumerate(blocks))
    return struct.pack('<I', 0xfd2fb528) + head + out + (struct.pack('<I', xxh64(data) & 0xffffffff) if check else b'')


def make_zstd():
    parts = [content() for _ in range(draw.randrange(1, 4))]
    skip = lambda: struct.pack('<II', 0x184d2a50 + draw.randrange(16), 7) + b'skipped' if draw.random() < .3 else b''
    return b''.join(zstd_frame(part) + skip() for part in parts), b''.join(parts)


# ---- archives ----

def members():
    names = draw.sample(['rank0.json', 'a/b.txt', 'é.json', 'x' * 90 + '.json', 'd/' * 60 + 'deep.json', 'y' * 200, 'with blank', 'z'], draw.randrange(1, 5))
    return [(name, content()) for name in names]


def joined(all_of):
    return b'\x1e'.join(name.encode() + b'\x1f' + data for name, data in all_of)


class Unseekable(io.RawIOBase):
    """zipfile writes data descriptors where it cannot seek."""
    def __init__(self, out):
        self.out = out

    def writable(self):
        return True

    def write(self, data):
        self.out.write(bytes(data))
        return len(data)


def make_zip():
    out, all_of = io.BytesIO(), members()
    with zipfile.ZipFile(draw.choice([lambda: out, lambda: Unseekable(out)])(), 'w') as archive:
        archive.comment = draw.choice([b'', b'a comment'])
        for name, data in all_of:
            info = zipfile.ZipInfo(name)
            info.compress_type = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            with archive.open(info, 'w', force_zip64=draw.random() < .3) as member:
                member.write(data)
    return out.getvalue(), joined(all_of)


def make_tar():
    out, all_of = io.BytesIO(), members()
    form = draw.choice([tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    if form == tarfile.USTAR_FORMAT:
        all_of = [(n, d) for n, d in all_of if len(n) < 100 and n.isascii()] or [('a', b'b')]
    with tarfile.open(fileobj=out, mode='w', format=form, pax_headers={'comment': 'é'} if form == tarfile.PAX_FORMAT and draw.random() < .3 else None) as archive:
        for name, data in all_of:
            if draw.random() < .2:
                folder = tarfile.TarInfo('folder/')
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if form == tarfile.PAX_FORMAT and draw.random() < .3:
                info.mtime = 1.5
            archive.addfile(info, io.BytesIO(data))
    data = out.getvalue()
    return draw.choice([lambda: data, lambda: gzip_member(data)])(), joined(all_of)


def pickled(depth, known):
    """A value, with tuples, bytes, keys that are numbers, lists longer than a batch of APPENDS, and values that occur twice."""
    kind = draw.randrange(12 if depth else 5)
    if kind == 0 and known:
        return draw.choice(known)
    if kind < 3:
        return draw.choice([number(), 1 << draw.randrange(1, 900), -1 << draw.randrange(1, 900), draw.randrange(70000), value(0)])
    if kind < 5:
        return draw.choice([text(), text(3).encode() * draw.choice([1, 100]), 'a\0b', 'x' * 300])
    count = draw.choice([0, 1, 2, 3, 4, 5, 1001 if depth == 1 else 6])
    items = [pickled(depth - 1, known) for _ in range(count)]
    made = tuple(items) if kind < 7 else items if kind < 9 else {draw.choice([key(), draw.randrange(-7999, -6999)]): item for item in items}
    if sum(len(str(one)) for one in items) < 300:  # else sharing would make texts of any length
        known.append(made)
    return made


def as_read(value):
    """What is read of it: bytes are texts, a NUL is U+FFFD."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return value.replace('\0', '\ufffd')
    if isinstance(value, (list, tuple)):
        return [as_read(one) for one in value]
    return {as_read(k): as_read(v) for k, v in value.items()} if isinstance(value, dict) else value


def make_pickle():
    made = pickled(3, [])
    data = pickle.dumps(made, protocol=draw.randrange(2, 6))
    if b'_codecs' in data or b'__builtin__' in data:  # bytes in protocol 2 are a call, which is refused
        return data, 'error'
    said = say(as_read(made))
    return (data, said) if len(said) < 200000 else None


def main():
    kind, count, seed, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if kind == 'yaml':
        make_yaml.loaded = yaml_loader()
    made = 0
    with open(path, 'w') as file:
        while made < count:
            seed += 1
            draw.seed(seed)
            one = globals()['make_' + kind]()
            if one is None:
                continue
            document, inside = one
            inside = inside if inside == 'error' else binascii.hexlify(inside.encode() if isinstance(inside, str) else inside).decode()
            file.write(document.hex() + ' ' + inside + '\n')
            made += 1


main()
