"""MessagePack as our messages use it (no extension types): reads one document, writes one.
"""
import struct


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("the document ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def items(self, count):
        return [self.value() for _ in range(count)]

    def pairs(self, count):
        pairs = [(self.value(), self.value()) for _ in range(count)]
        if len(dict(pairs)) != count:
            raise ValueError("a key stands twice")
        return dict(pairs)

    def value(self):
        head = self.take(1)[0]
        if head < 0x80:
            return head
        if head >= 0xe0:
            return head - 0x100
        for first, last, read in ((0x80, 0x8f, self.pairs), (0x90, 0x9f, self.items),
                                  (0xa0, 0xbf, self.text)):
            if first <= head <= last:
                return read(head - first)
        if head in CONSTANTS:
            return CONSTANTS[head]
        if head in NUMBERS:
            return self.number(NUMBERS[head])
        if head in SIZED:
            kind, size = SIZED[head]
            return getattr(self, kind)(self.number(size))
        raise ValueError("unexpected head 0x%02x" % head)

    def text(self, length):
        return self.take(length).decode()

    def binary(self, length):
        return self.take(length)


CONSTANTS = {0xc0: None, 0xc2: False, 0xc3: True}
NUMBERS = {0xca: "f", 0xcb: "d", 0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q", 0xd0: "b", 0xd1: "h",
           0xd2: "i", 0xd3: "q"}
SIZED = {0xc4: ("binary", "B"), 0xc5: ("binary", "H"), 0xc6: ("binary", "I"), 0xd9: ("text", "B"),
         0xda: ("text", "H"), 0xdb: ("text", "I"), 0xdc: ("items", "H"), 0xdd: ("items", "I"),
         0xde: ("pairs", "H"), 0xdf: ("pairs", "I")}


def unpack(data):
    reader = Reader(bytes(data))
    value = reader.value()
    if reader.at != len(reader.data):
        raise ValueError("%d bytes follow the document" % (len(reader.data) - reader.at))
    return value


def pack(value):
    """The document as bytes, with lengths and numbers in their widest forms: rarely what a library writes."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return struct.pack(">Bq", 0xd3, value) if value < 1 << 63 else struct.pack(">BQ", 0xcf, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xcb, value)
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        return struct.pack(">BI", 0xdb, len(data)) + data
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xc6, len(value)) + value
    if isinstance(value, dict):
        return struct.pack(">BI", 0xdf, len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    return struct.pack(">BI", 0xdd, len(value)) + b"".join(pack(item) for item in value)
