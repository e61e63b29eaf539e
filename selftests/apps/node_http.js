// SPDX-License-Identifier: GPL-2.0
/*
 * node_http.js server PORT [cluster]: an HTTP server.
 * node_http.js client PORT: its clients; prints what has to be the same each
 * time, one line a test.
 */
'use strict';
const cluster = require('cluster');
const crypto = require('crypto');
const http = require('http');
const net = require('net');
const { pipeline, Readable, Transform } = require('stream');

const PORT = Number(process.argv[3]);
const PIECE = 30011;

// Bytes that depend on their place, so that loss or order shows. Of a prime
// length, so that the place in a ring of memory does not matter.
const PATTERN = Buffer.from(Array.from({ length: 65521 }, (_, i) =>
	i * 2654435761 >>> 24 ^ i >>> 13));

function pattern(at, length) {
	const parts = [];

	for (at %= PATTERN.length; length; at = 0) {
		const n = Math.min(length, PATTERN.length - at);

		parts.push(PATTERN.subarray(at, at + n));
		length -= n;
	}
	return Buffer.concat(parts);
}

function source(size) {
	let at = 0;

	return new Readable({
		read() {
			const n = Math.min(PIECE, size - at);

			this.push(n ? pattern(at, n) : null);
			at += n;
		},
	});
}

function sha(data) {
	return crypto.createHash('sha256').update(data).digest('hex');
}

/* Server */

function answer(req, res) {
	const url = new URL(req.url, 'http://x');
	const size = Number(url.searchParams.get('size'));
	const hash = crypto.createHash('sha256');

	switch (url.pathname) {
	case '/small':
		res.end('a small answer\n');
		break;
	case '/big':
		res.setHeader('Content-Length', size);
		pipeline(source(size), res, () => {});
		break;
	case '/chunked':
		res.setHeader('Trailer', 'X-End');
		for (let i = 0; i < size; i++)
			res.write(`line ${i}\n`);
		res.addTrailers({ 'X-End': 'yes' });
		res.end();
		break;
	case '/sum':
		pipeline(req, hash, () => res.end(hash.digest('hex')));
		break;
	case '/echo':
		pipeline(req, res, () => {});
		break;
	case '/upper':
		pipeline(req, new Transform({
			transform(chunk, _, done) {
				done(null, chunk.toString().toUpperCase());
			},
		}), res, () => {});
		break;
	case '/slow':
		setTimeout(() => res.end('late\n'), 50);
		break;
	case '/cut':
		res.setHeader('Content-Length', 1000);
		res.write('only this');
		setTimeout(() => res.socket.destroy(), 20);
		break;
	default:
		res.statusCode = 404;
		res.end();
	}
}

function serve() {
	const server = http.createServer(answer);

	server.keepAliveTimeout = 60000;
	// What became of the connection by "Upgrade" is echoed.
	server.on('upgrade', (req, socket, head) => {
		socket.write('HTTP/1.1 101 Switching Protocols\r\n' +
			     'Connection: Upgrade\r\nUpgrade: echo\r\n\r\n');
		socket.write(head);
		socket.pipe(socket);
	});
	server.listen(PORT, '127.0.0.1');
}

function main_server() {
	// Round robin: the master accepts and passes descriptors on.
	if (process.argv[4] && cluster.isPrimary) {
		cluster.fork();
		cluster.fork();
		process.on('SIGTERM', () => {
			for (const w of Object.values(cluster.workers))
				w.process.kill('SIGKILL');
			process.exit(0);
		});
		return;
	}
	if (!process.argv[4])
		process.on('SIGTERM', () => process.exit(0));
	serve();
}

/* Clients */

function request(options, body) {
	return new Promise((resolve, reject) => {
		const req = http.request({ host: '127.0.0.1', port: PORT,
					   ...options }, (res) => {
			const all = [];

			res.on('data', (d) => all.push(d));
			res.on('error', reject);
			res.on('end', () => resolve({
				status: res.statusCode,
				trailers: res.trailers,
				port: req.socket.localPort,
				data: Buffer.concat(all),
			}));
		});
		req.on('error', reject);
		if (body instanceof Readable)
			pipeline(body, req, (e) => e && reject(e));
		else
			req.end(body);
	});
}

// Pipelined on one connection: the answers come in the order of the requests.
function pipelined(paths) {
	return new Promise((resolve, reject) => {
		const s = net.connect(PORT, '127.0.0.1');
		let text = '';

		s.on('error', reject);
		s.on('data', (d) => { text += d; });
		s.on('end', () => resolve(text));
		s.write(paths.map((p, i) =>
			`GET ${p} HTTP/1.1\r\nHost: x\r\n` +
			(i === paths.length - 1 ? 'Connection: close\r\n' : '') +
			'\r\n').join(''));
	});
}

function upgraded(size) {
	return new Promise((resolve, reject) => {
		const req = http.request({
			host: '127.0.0.1', port: PORT,
			headers: { Connection: 'Upgrade', Upgrade: 'echo' },
		});

		req.on('error', reject);
		req.on('upgrade', (res, s, head) => {
			const hash = crypto.createHash('sha256');

			hash.update(head);
			source(size).pipe(s);
			s.on('data', (d) => hash.update(d));
			s.on('end', () => resolve(hash.digest('hex')));
			s.on('error', reject);
		});
		req.end();
	});
}

function say(name, value) {
	console.log(`${name}: ${value}`);
}

async function main_client() {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
	const get = (path, more) => request({ path, agent, ...more });
	const post = (path, body, more) =>
		request({ path, agent, method: 'POST', ...more }, body);
	const big = 1000003;
	const want = sha(pattern(0, big));
	let r = await get('/small');

	say('small', r.data);
	r = await get('/none');
	say('no such path', r.status);
	r = await get(`/big?size=${big}`);
	say('big', r.data.length);
	say('big is right', sha(r.data) === want);
	r = await get('/chunked?size=500');
	say('chunked', sha(r.data));
	say('trailers', JSON.stringify(r.trailers));
	r = await post('/sum', source(big));
	say('upload is right', r.data.toString() === want);
	r = await post('/sum', source(big), {
		headers: { 'Content-Length': big, Expect: '100-continue' } });
	say('upload after 100 is right', r.data.toString() === want);
	r = await post('/echo', source(big));
	say('echo is right', sha(r.data) === want);
	r = await post('/upper', 'through a transform');
	say('transform', r.data);
	r = await get('/slow');
	say('slow', r.data);
	say('cut', await get('/cut', { agent: new http.Agent() }).then(
		() => 'whole', (e) => e.code || e.message));

	const many = await Promise.all(Array.from({ length: 200 }, (_, i) =>
		i % 3 ? post('/echo', String(i).repeat(i * 20)) :
			get('/small')));
	const right = many.filter((m, i) => m.data.toString() ===
		(i % 3 ? String(i).repeat(i * 20) : 'a small answer\n'));
	say('right of 200 at once over 8 connections', right.length);
	say('connections are kept',
	    new Set(many.map((m) => m.port)).size <= 16);
	agent.destroy();

	const text = await pipelined(['/small', '/slow', '/chunked?size=20',
				      '/none', '/small']);
	say('pipelined', JSON.stringify(text.match(/HTTP\/1.1 \d+|late|line 19|small/g)));
	say('upgraded is right', await upgraded(big) === want);
	const none = net.connect(1, '127.0.0.1');
	say('nobody listens', await new Promise((done) =>
		none.on('error', (e) => done(e.code))));
}

if (process.argv[2] === 'server') {
	main_server();
} else {
	main_client().catch((e) => {
		console.log(e);
		process.exit(1);
	});
}
