#!/usr/bin/python3.11
# SPDX-License-Identifier: GPL-2.0
"""
Counts what crosses an interface until it is told to stop, as one line of JSON:
of TCP, of a port of its own, packets that are signed and those that are not; of
RoCE v2 the connection manager's, and all others.
"""
import json
import select
import socket
import struct
import sys

ROCE = 4791
# what the module socket does not name
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
SIGNED = {19: 'md5', 29: 'ao'}


def tcp(data, port):
    """What a segment is, if it is of this port."""
    source, dest = struct.unpack('>HH', data[:4])
    if port not in (source, dest):
        return None
    options = data[20:(data[12] >> 4) * 4]
    while options and options[0]:
        if options[0] in SIGNED:
            return SIGNED[options[0]]
        length = 1 if options[0] == 1 else options[1]
        options = options[max(length, 1):]
    return 'tcp'


def roce(data):
    """A datagram to the general service interface is not about data."""
    to = int.from_bytes(data[13:16], 'big')
    return 'cm' if to == 1 else 'rdma'


def kind(packet, port):
    proto = struct.unpack('>H', packet[12:14])[0]
    if proto == 0x0800:
        inner, data = packet[23], packet[14 + (packet[14] & 15) * 4:]
    elif proto == 0x86dd:
        inner, data = packet[20], packet[54:]
    elif proto == 0x88e5:
        return 'macsec'
    else:
        return None
    if inner == 50:
        return 'esp'
    if inner == 6:
        return tcp(data, port)
    if inner == 17 and struct.unpack('>H', data[2:4])[0] == ROCE:
        return roce(data)
    return None


def main():
    device, port = sys.argv[1], int(sys.argv[2])
    counts = dict.fromkeys(('tcp', 'md5', 'ao', 'esp', 'macsec', 'cm', 'rdma'),
                           0)
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    s.bind((device, 3))
    s.setblocking(False)
    print('sniffing', flush=True)
    told = False
    while True:
        ready = select.select([s, sys.stdin], [], [], 0 if told else None)[0]
        if s in ready:
            try:
                what = kind(s.recv(65536), port)
            except BlockingIOError:
                continue
            if what:
                counts[what] += 1
        elif told or sys.stdin in ready:
            # what has crossed by then is counted
            if told:
                break
            told = True
    counts['lost'] = struct.unpack('II', s.getsockopt(
        SOL_PACKET, PACKET_STATISTICS, 8))[1]
    print(json.dumps(counts), flush=True)


if __name__ == '__main__':
    main()
