// SPDX-License-Identifier: Apache-2.0
// What all scenarios share: node scenario.js-file PORT QUEUE prints one line of JSON and ends.
'use strict';

const rhea = require('rhea');

const [port, queue] = process.argv.slice(2);

exports.queue = queue;
exports.rhea = rhea;

exports.connect = (container = rhea.create_container(), options = {}) =>
  container.connect({ host: '127.0.0.1', port: Number(port), reconnect: false, ...options });

exports.finish = (connection, result) => {
  console.log(JSON.stringify(result));
  connection.close();
};

exports.content = (body) => (body && body.content ? body.content.toString() : Buffer.isBuffer(body) ? body.toString() : body);

setTimeout(() => {
  console.error('nothing happened for 100 s');
  process.exit(1);
}, 100000).unref();
