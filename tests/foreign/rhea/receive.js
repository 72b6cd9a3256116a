// SPDX-License-Identifier: Apache-2.0
// Receives five messages in the order in which send.js sends them, and accepts them.
'use strict';

const { connect, content, finish, queue } = require('./scenario');

const connection = connect();
const receiver = connection.open_receiver({ source: queue, credit_window: 0, autoaccept: false });
const got = [];

receiver.on('receiver_open', () => receiver.add_credit(5));
receiver.on('message', (context) => {
  const message = context.message;
  got.push({ body: content(message.body), id: message.message_id, subject: message.subject, durable: message.durable });
  context.delivery.accept();
  if (got.length === 5) setTimeout(() => finish(connection, got), 100);
});
