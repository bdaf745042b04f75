#!/usr/bin/env node
// Starts the unloop binary of this platform, which an optional dependency brings.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const binary = process.platform === 'win32' ? 'unloop.exe' : 'unloop';
const name = `@unloop/${process.platform}-${process.arch}`;

let path;
try {
  path = require.resolve(`${name}/${binary}`);
} catch {
  console.error(`unloop: the package ${name} is not installed. Either there is no binary for this platform, ` +
    'or npm was told to leave optional dependencies out: install without --omit=optional.');
  process.exit(1);
}

const child = spawn(path, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends Ctrl-C to the binary too. It decides when to end; this process waits for it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => { if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal); });
}
child.on('error', (err) => {
  console.error(`unloop: start ${path}: ${err.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
