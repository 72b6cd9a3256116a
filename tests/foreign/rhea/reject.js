// SPDX-License-Identifier: Apache-2.0
// Is told why a message was not taken, and why a link was not attached.
'use strict';

const { connect, finish, queue } = require('./scenario');

const connection = connect();
const result = {};
const sender = connection.open_sender(queue);

sender.once('sendable', () => sender.send({ body: 'x'.repeat(5000) }));
sender.on('rejected', (context) => {
  result.rejected = context.delivery.remote_state.error.condition;
  const nowhere = connection.open_sender('NO.SUCH.QUEUE');
  nowhere.on('sender_error', () => {
    result.detached = nowhere.error.condition;
    finish(connection, result);
  });
});
