"""Exports as the compiler of protocol buffers sees them: `protoc --decode` with the statements of Perfetto's and Chakra's messages
below. A field that is not stated, or is of another wire type, is printed by its number: that is an error here, as is a file that
does not end with a message. What a Perfetto trace names exists: tracks and their parents, interned texts, both ends of an arrow.

peers.py FILE.pftrace FOLDER_OF_ET ...: prints of each its packets or nodes.

The numbers, names and types of fields are those of google/perfetto, protos/perfetto/trace (trace.proto, trace_packet.proto,
track_event/*.proto, interned_data/interned_data.proto), and of mlcommons/chakra, schema/protobuf/et_def.proto (0.0.4).
"""
import collections, os, re, subprocess, sys, tempfile

PERFETTO = '''syntax = "proto2";
package perfetto.protos;
message Trace { repeated TracePacket packet = 1; }
message TracePacket {
  optional uint64 timestamp = 8;
  optional uint32 trusted_packet_sequence_id = 10;
  optional TrackEvent track_event = 11;
  optional InternedData interned_data = 12;
  optional uint32 sequence_flags = 13;
  optional TrackDescriptor track_descriptor = 60;
}
message ProcessDescriptor { optional int32 pid = 1; optional int32 legacy_sort_index = 3; optional string process_name = 6; }
message ThreadDescriptor {
  optional int32 pid = 1;
  optional int64 tid = 2;
  optional int32 legacy_sort_index = 3;
  optional string thread_name = 5;
}
message CounterDescriptor {
  enum Unit { UNIT_UNSPECIFIED = 0; UNIT_TIME_NS = 1; UNIT_COUNT = 2; UNIT_SIZE_BYTES = 3; }
  optional Unit unit = 3;
}
message TrackDescriptor {
  enum ChildTracksOrdering { UNKNOWN = 0; LEXICOGRAPHIC = 1; CHRONOLOGICAL = 2; EXPLICIT = 3; }
  enum Ordering { ORDERING_UNSPECIFIED = 0; ORDERING_EXPLICIT = 1; }
  optional uint64 uuid = 1;
  optional string name = 2;
  optional ProcessDescriptor process = 3;
  optional ThreadDescriptor thread = 4;
  optional uint64 parent_uuid = 5;
  optional CounterDescriptor counter = 8;
  optional ChildTracksOrdering child_ordering = 11;
  optional int32 sibling_order_rank = 12;
  optional Ordering process_ordering = 19;
  optional Ordering thread_ordering = 20;
}
message DebugAnnotation { optional uint64 name_iid = 1; optional int64 int_value = 4; optional double double_value = 5;
  optional string string_value = 6; }
message TrackEvent {
  enum Type { TYPE_UNSPECIFIED = 0; TYPE_SLICE_BEGIN = 1; TYPE_SLICE_END = 2; TYPE_INSTANT = 3; TYPE_COUNTER = 4; }
  repeated uint64 category_iids = 3;
  repeated DebugAnnotation debug_annotations = 4;
  optional Type type = 9;
  optional uint64 name_iid = 10;
  optional uint64 track_uuid = 11;
  optional int64 counter_value = 30;
  optional double double_counter_value = 44;
  repeated fixed64 flow_ids = 47;
  repeated fixed64 terminating_flow_ids = 48;
}
message Interned { optional uint64 iid = 1; optional string name = 2; }
message InternedData {
  repeated Interned event_categories = 1;
  repeated Interned event_names = 2;
  repeated Interned debug_annotation_names = 3;
}
'''
CHAKRA = '''syntax = "proto3";
package ChakraProtoMsg;
message AttributeProto {
  string name = 1;
  oneof value { int32 int32_val = 7; int64 int64_val = 9; uint64 uint64_val = 13; bool bool_val = 27; string string_val = 29; }
}
message GlobalMetadata { string version = 1; repeated AttributeProto attr = 2; }
enum NodeType {
  INVALID_NODE = 0; METADATA_NODE = 1; MEM_LOAD_NODE = 2; MEM_STORE_NODE = 3; COMP_NODE = 4;
  COMM_SEND_NODE = 5; COMM_RECV_NODE = 6; COMM_COLL_NODE = 7;
}
message Node {
  uint64 id = 1;
  string name = 2;
  NodeType type = 3;
  repeated uint64 ctrl_deps = 4;
  repeated uint64 data_deps = 5;
  uint64 start_time_micros = 6;
  uint64 duration_micros = 7;
  repeated AttributeProto attr = 10;
}
message Nodes { repeated Node node = 1; }
'''
# Values that are no name of an enumeration are printed as numbers; unknown fields by number, groups as "3 {".
NUMBERED = re.compile(r'^\s*\d+(: | \{)', re.M)
VALUE = re.compile(r'^\s*(type|unit|child_ordering|process_ordering|thread_ordering): -?\d', re.M)


def decode(schema, message, data):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'schema.proto'), 'w') as file:
            file.write(schema)
        run = subprocess.run(['protoc', '--decode', message, '-I', folder, 'schema.proto'], input=data, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    if run.returncode:
        sys.exit(f'protoc: {run.stderr.decode()}')
    text = run.stdout.decode()
    for bad in (NUMBERED, VALUE):
        if found := bad.search(text):
            sys.exit(f'unknown: {found.group().strip()} in\n' + text[max(0, found.start() - 300):found.end() + 100])
    return text


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def encode(value):
    out = b''
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def records(data):
    """The messages of a file, each after its length."""
    at, out = 0, []
    while at < len(data):
        size, at = varint(data, at)
        if at + size > len(data):
            sys.exit('a message is cut off')
        out.append(data[at:at + size])
        at += size
    return out


def messages(text):
    """Messages of the text form as dictionaries of lists."""
    stack = [{}]
    for line in text.splitlines():
        line = line.strip()
        if line == '}':
            stack.pop()
        elif line.endswith('{'):
            stack[-1].setdefault(line[:-2], []).append({})
            stack.append(stack[-1][line[:-2]][-1])
        else:
            key, value = line.split(': ', 1)
            stack[-1].setdefault(key, []).append(value)
    return stack[0]


def check_references(path, text):
    packets = messages(text)['packet']
    tracks, parents, texts, used, processes, threads = set(), set(), set(), set(), set(), set()
    begun, arrived = collections.Counter(), collections.Counter()
    for packet in packets:
        sequence = packet.get('trusted_packet_sequence_id', ['0'])[0]
        for data in packet.get('interned_data', []):
            texts |= {(sequence, kind, one['iid'][0]) for kind, list_ in data.items() for one in list_}
        for track in packet.get('track_descriptor', []):
            if track['uuid'][0] in tracks:
                sys.exit(f'{path}: track {track["uuid"][0]} is there twice')
            tracks.add(track['uuid'][0])
            parents |= set(track.get('parent_uuid', []))
            processes |= {pid for one in track.get('process', []) for pid in one['pid']}
            threads |= {pid for one in track.get('thread', []) for pid in one['pid']}
        for event in packet.get('track_event', []):
            if missing := set(event.get('track_uuid', [])) - tracks:
                sys.exit(f'{path}: an event on a track that is not described before it: {missing}')
            used |= set(event['track_uuid'])
            names = {(sequence, 'event_names', iid) for iid in event.get('name_iid', [])}
            names |= {(sequence, 'event_categories', iid) for iid in event.get('category_iids', [])}
            names |= {(sequence, 'debug_annotation_names', iid) for one in event.get('debug_annotations', []) for iid in one.get('name_iid', [])}
            if missing := names - texts:
                sys.exit(f'{path}: a text that was not interned before: {missing}')
            begun.update(event.get('flow_ids', []))
            arrived.update(event.get('terminating_flow_ids', []))
    if parents - tracks:
        sys.exit(f'{path}: no track {parents - tracks}, which others name as their parent')
    if threads - processes:
        sys.exit(f'{path}: no process {threads - processes}, which threads name as theirs')
    if begun != arrived or any(count > 1 for count in begun.values()):
        sys.exit(f'{path}: arrows without both ends')
    return f'{len(used)} tracks, {sum(begun.values())} arrows'


def main():
    for path in sys.argv[1:]:
        if os.path.isdir(path):
            files = sorted(name for name in os.listdir(path) if name.endswith('.et'))
            nodes = 0
            for name in files:
                first, *rest = records(open(os.path.join(path, name), 'rb').read())
                assert 'version: "0.0.4"' in decode(CHAKRA, 'ChakraProtoMsg.GlobalMetadata', first), name
                text = decode(CHAKRA, 'ChakraProtoMsg.Nodes', b''.join(b'\n' + encode(len(one)) + one for one in rest))
                assert text.count('\nnode {') + text.startswith('node {') == len(rest), name
                assert 'INVALID_NODE' not in text and text.count('  type: ') == len(rest), name
                nodes += len(rest)
            print(f'{path}: {len(files)} files, {nodes} nodes')
        else:
            text = decode(PERFETTO, 'perfetto.protos.Trace', open(path, 'rb').read())
            print(f'{path}: {text.count("packet {")} packets, {check_references(path, text)}')


main()
