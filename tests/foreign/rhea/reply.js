// SPDX-License-Identifier: Apache-2.0
// A client that asks on a queue and waits at a dynamic one, and the service that answers it.
'use strict';

const { rhea, connect, finish, queue } = require('./scenario');

const service = connect(rhea.create_container());
service.open_receiver(queue);
const anonymous = service.open_sender({});
service.on('message', (context) => {
  anonymous.send({ to: context.message.reply_to, correlation_id: context.message.message_id, body: `re: ${context.message.body}` });
});

const connection = connect(rhea.create_container());
const sender = connection.open_sender(queue);
const replies = connection.open_receiver({ source: { dynamic: true } });
const id = rhea.generate_uuid();

replies.on('receiver_open', () => {
  sender.send({ reply_to: replies.source.address, message_id: id, body: 'question' });
});
replies.on('message', (context) => {
  finish(connection, { body: context.message.body, same: context.message.correlation_id === id, dynamic: replies.source.dynamic });
  service.close();
});
