#!/usr/bin/python3.11
# SPDX-License-Identifier: GPL-2.0
"""
What ran, on what tree, with what result: a file with a line for each time
that a part of a check ran to its end. Of a part on a tree the last line
counts. A line that was cut off, or that nobody here wrote, is no stamp.

	stamp.py add CHECK PART TREE VERDICT SECONDS FLAKY TEXT
	stamp.py passed CHECK PART TREE	status 0 if it did; prints when
	stamp.py flaky CHECK TREE		how many were flaky there, all parts
"""
import argparse
import collections
import fcntl
import os
import sys
import time

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'stamps')
VERDICTS = ('passed', 'failed')

Stamp = collections.namedtuple(
    'Stamp', 'date tree check part verdict seconds flaky text')


def parse(line):
    fields = line.split('\t')
    if not line.endswith('\n') or len(fields) != len(Stamp._fields):
        return None
    s = Stamp(*fields)._replace(text=fields[-1].rstrip('\n'))
    good = s.verdict in VERDICTS and s.seconds.isdigit() and s.flaky.isdigit()
    return s._replace(seconds=int(s.seconds),
                      flaky=int(s.flaky)) if good else None


def load(path=FILE):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return [s for s in map(parse, f) if s]
    except FileNotFoundError:
        return []


def last(stamps, **of):
    """The last of those with these fields, by part."""
    return {s.part: s for s in stamps
            if all(getattr(s, k) == v for k, v in of.items())}


def add(args, path=FILE):
    """A whole line, behind whole lines, for several writers at once."""
    text = ' '.join(args.text.split())
    s = Stamp(time.strftime('%Y-%m-%d %H:%M'), args.tree, args.check,
              args.part, args.verdict, args.seconds, args.flaky, text)
    with open(path, 'a+b') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0, os.SEEK_END)
        if f.tell():
            f.seek(-1, os.SEEK_END)
            if f.read(1) != b'\n':
                f.write(b'\n')
        f.write(('\t'.join(map(str, s)) + '\n').encode())


def passed(args):
    s = last(load(), check=args.check, tree=args.tree).get(args.part)
    if s and s.verdict == 'passed':
        print(s.date)
        return 0
    return 1


def flaky(args):
    parts = last(load(), check=args.check, tree=args.tree)
    print(sum(s.flaky for s in parts.values()))
    return 0


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True)
    for f, names in ((add, 'check part tree verdict seconds flaky text'),
                     (passed, 'check part tree'), (flaky, 'check tree')):
        q = sub.add_parser(f.__name__)
        q.set_defaults(do=f)
        for name in names.split():
            q.add_argument(name, type=int if name in ('seconds', 'flaky')
                           else str, choices=VERDICTS
                           if name == 'verdict' else None)
    args = p.parse_args()
    return args.do(args)


if __name__ == '__main__':
    sys.exit(main())
