# SPDX-License-Identifier: GPL-2.0
"""
Python's own tests of everything that has to do with sockets: none that passes
on TCP may not pass under l5run. Those that do pass are not run on TCP as well.
"""
import concurrent.futures
import os
import re
import xml.etree.ElementTree as ET

PYTHON = '/usr/bin/python3.11'
# Modules and the resources they ask for. "network" is what test_socketserver
# calls the loopback device; for the others it is the world outside.
MODULES = {
    'test_ssl': [],
    'test_socket': [],
    'test_selectors': [],
    'test_httplib': [],
    'test_socketserver': ['-u', 'network'],
}
# Of test_asyncio by default those that make connections, else all.
ASYNCIO = ('test_events', 'test_ssl', 'test_sendfile', 'test_sock_lowlevel',
           'test_sslproto', 'test_streams', 'test_server', 'test_buffered_proto',
           'test_transports', 'test_selector_events', 'test_unix_events',
           'test_base_events')
# They sleep more than they compute.
WORKERS = 3
# A module takes a tenth of that time. After it a module prints where it is,
# and ends.
TIMEOUT = 240
# So many failures are no accident, and to try them again would take long.
MANY = 20
# Of so many tests each is named to be run on TCP; of more the whole module is.
FEW = 400
CONNECTIONS = 300
PAYLOAD = 1 << 20


def results(xml):
    """{test: passed, failed or skipped} of a regrtest report."""
    out = {}
    for case in ET.parse(xml).getroot().iter('testcase'):
        tags = {child.tag for child in case}
        out[case.get('name')] = ('failed' if tags & {'failure', 'error'} else
                                 'skipped' if 'skipped' in tags or
                                 case.get('status') != 'run' else 'passed')
    return out


def regrtest(s, module, args, only=()):
    """Run a module, or a few of its tests. Return results and the output."""
    where = s.path(f'{module}-{"again" if only else "all"}')
    os.mkdir(where)
    xml = os.path.join(where, 'report.xml')
    # Without --timeout a test that hangs would tell us nothing about itself.
    argv = [PYTHON, '-u', '-m', 'test', '-v', '--junit-xml', xml,
            '--timeout', TIMEOUT, *args]
    for test in only:
        argv += ['-m', test]
    # Its own limit, since some tests make half as many files as are allowed.
    r = s.run(['prlimit', '--nofile=1024:4096', *argv, module], cwd=where,
              timeout=2 * TIMEOUT)
    try:
        return results(xml), r
    except (OSError, ET.ParseError):
        # It was killed. Its output by then tells which test did it.
        return said(r.text), r


def said(text):
    """As results(), of the output of "-v"."""
    words = {'ok': 'passed', 'skipped': 'skipped'}
    found = re.findall(r'^\w+ \(([\w.]+)\)(?:.*\n)?.*? \.\.\. '
                       r'(?:.*\n)*?.*?\b(ok|FAIL|ERROR|skipped)\b', text, re.M)
    return {test: words.get(word, 'failed') for test, word in found}


def modules(full):
    out = dict(MODULES)
    if full:
        where = '/usr/lib/python3.11/test/test_asyncio'
        found = sorted(f[:-3] for f in os.listdir(where)
                       if f.startswith('test_') and f.endswith('.py') and
                       'windows' not in f)
    else:
        found = ASYNCIO
    for name in found:
        out[f'test.test_asyncio.{name}'] = []
    return out


def everything(full):
    """A session: {module: (results, output)}."""
    def session(s):
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            jobs = {module: pool.submit(regrtest, s, module, args)
                    for module, args in modules(full).items()}
            return {module: job.result() for module, job in jobs.items()}
    return session


def listed(s, module, args):
    """The names of all tests of a module."""
    r = s.must([PYTHON, '-m', 'test', '--list-cases', *args, module],
               timeout=TIMEOUT)
    return [line for line in r.text.splitlines()
            if re.fullmatch(r'test\.\w+(\.\w+)+', line)]


def doubtful(found):
    """
    A session on TCP: what did not pass in some mode is run there, since only
    a comparison tells what that means. A test that passes under l5run has
    nothing to fear from it. @found: {mode: {module: (results, output)}}.
    """
    def one(s, module, args):
        tests = listed(s, module, args)
        doubts = [test for test in tests
                  if any(l5[module][0].get(test) != 'passed'
                         for l5 in found.values())]
        if not doubts:
            return len(tests), {}, None
        # So many names are more than a command line should have; and a module
        # that was killed is another matter than a few tests.
        few = doubts if len(doubts) <= FEW else ()
        return len(tests), *regrtest(s, module, args, few)

    def session(s):
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            jobs = {module: pool.submit(one, s, module, args)
                    for module, args in modules(s.test.long).items()}
            return {module: job.result() for module, job in jobs.items()}
    return session


def worse(tcp, l5):
    """Tests that pass on TCP and not under l5run."""
    return [test for test, result in tcp.items()
            if result == 'passed' and l5.get(test) != 'passed']


def run(t):
    found, moved = {}, {}
    for mode in t.modes:
        result, counted = t.attempt(mode, everything(t.long))
        if result is not None:
            found[mode], moved[mode] = result, counted
    tcp, _ = t.attempt('tcp', doubtful(found))
    if tcp is None:
        return
    for mode, l5 in found.items():
        for module, args in modules(t.long).items():
            compare(t, mode, module, args, tcp[module], l5[module])
        # Some tests mean to stay on TCP.
        t.shared_memory(mode, moved[mode], CONNECTIONS, PAYLOAD, CONNECTIONS,
                        base=None)


def compare(t, mode, module, args, tcp, l5):
    tests, want, tcp_run = tcp
    got, l5_run = l5
    passed = sum(result == 'passed' for result in got.values())
    # Most tests of a module that does anything here pass, wherever they run.
    if not t.check(tests and (passed or worse(want, got)),
                   f'{mode}: {module}: {passed} of {tests} tests pass',
                   f'{l5_run}\n{tcp_run}'):
        return
    bad = worse(want, got)
    again, again_run = {}, l5_run
    if bad and len(bad) <= MANY:
        # Under load, and with other tests on the same ports, a test may
        # fail on TCP too. A test that fails alone as well is different.
        def session(s):
            return regrtest(s, module, args, bad)
        got_again, _ = t.attempt(mode, session)
        again, again_run = got_again or ({}, l5_run)
        for test in bad:
            t.note(f'{mode}: {test}: passed on TCP, '
                   f'{got.get(test, "not run")} under l5run, then alone '
                   f'{again.get(test, "not run")}')
    still = [test for test in bad if again.get(test) != 'passed']
    t.check(not still, f'{mode}: {module}: no test is worse than on TCP',
            f'{still}\n{again_run if still else ""}')
    # Nothing can be said about tests that fail on TCP; but they can be shown.
    for test, result in want.items():
        if result == 'failed':
            t.note(f'{mode}: {test}: fails on TCP, '
                   f'{got.get(test, "not run")} under l5run')
