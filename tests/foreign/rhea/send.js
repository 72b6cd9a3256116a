// SPDX-License-Identifier: Apache-2.0
// Sends 100 messages, one of every kind of body first, and waits until all are accepted.
'use strict';

const { rhea, connect, finish, queue } = require('./scenario');

const bodies = ['text', rhea.message.data_section(Buffer.from('data')), Buffer.from('binary'), { a: 1 }, [1, 'x']];
const connection = connect();
const sender = connection.open_sender(queue);
let sent = 0;
let accepted = 0;

sender.on('sendable', () => {
  while (sender.sendable() && sent < 100) {
    sender.send({ body: bodies[sent] || `message ${sent}`, durable: true, message_id: `id-${sent}`, subject: 'a subject' });
    sent++;
  }
});
sender.on('accepted', () => {
  if (++accepted === 100) finish(connection, { accepted });
});
