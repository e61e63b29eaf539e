#!/usr/bin/python3.11
# SPDX-License-Identifier: GPL-2.0
"""
What ran, on what tree, with what result: a file with a line for each time
that a part of a check ran to its end. Of a part on a tree the last line
counts. A line that was cut off, or that nobody here wrote, is no stamp.

A check that takes longer than one machine is there for is resumed on another by
what the table of Documentation/testing.md says, which ./table has written from
such lines: a part has passed on a tree if either says so, and what a stamp says
of a part counts before what the table says.

	stamp.py add CHECK PART TREE VERDICT SECONDS FLAKY TEXT
	stamp.py passed CHECK PART TREE	status 0 if it did; prints when
	stamp.py flaky CHECK TREE		how many were flaky there, all parts
"""
import argparse
import collections
import fcntl
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, 'stamps')
DOC = os.path.join(HERE, '..', 'Documentation', 'testing.md')
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


ROW = re.compile(r'\| (\S+) \| (\S+) \| ([\d-]+ [\d:]+) \| `([0-9a-f]{12})` '
                 r'\| ([1-9]\d* passed, 0 failed\b.*?) \| ([\d.]+) \|$')


def written(path=DOC):
    """What the table says of parts that passed, as stamps; their trees are
    short ones."""
    stamps = []
    try:
        with open(path, encoding='utf-8') as f:
            for found in filter(None, map(ROW.match, f)):
                check, part, date, tree, text, minutes = found.groups()
                flaky = re.search(r', (\d+) flaky$', text)
                stamps.append(Stamp(date, tree, check, part, 'passed',
                                    round(float(minutes) * 60),
                                    int(flaky[1]) if flaky else 0, text))
    except FileNotFoundError:
        pass
    return stamps


def on_tree(check, tree):
    """What is known of the parts of a check on a tree, by part."""
    return {**last(written(), check=check, tree=tree[:12]),
            **last(load(), check=check, tree=tree)}


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
    s = on_tree(args.check, args.tree).get(args.part)
    if s and s.verdict == 'passed':
        print(s.date)
        return 0
    return 1


def flaky(args):
    parts = on_tree(args.check, args.tree)
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
