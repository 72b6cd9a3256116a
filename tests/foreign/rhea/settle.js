// SPDX-License-Identifier: Apache-2.0
// Sends and receives with settled deliveries, then releases, modifies and rejects one message each.
'use strict';

const { connect, content, finish, queue } = require('./scenario');

const connection = connect();
const seen = [];
const sender = connection.open_sender({ target: queue, snd_settle_mode: 1 });

sender.once('sendable', () => {
  for (const body of ['settled', 'released', 'modified', 'rejected']) sender.send({ body });
  sender.close();
});

sender.on('sender_close', () => {
  const settled = connection.open_receiver({ source: queue, snd_settle_mode: 1, credit_window: 0 });
  settled.add_credit(1);
  settled.on('message', (context) => {
    seen.push([context.message.body, context.delivery.remote_settled, context.message.delivery_count || 0]);
    settled.close();
  });
  settled.on('receiver_close', unsettled);
});

function unsettled() {
  const receiver = connection.open_receiver({ source: queue, credit_window: 0, autoaccept: false });
  receiver.add_credit(1);
  receiver.on('message', (context) => {
    const body = content(context.message.body);
    const count = context.message.delivery_count || 0;
    seen.push([body, context.delivery.remote_settled, count]);
    const again = seen.filter((each) => each[0] === body).length > 1;
    if (body === 'rejected') {
      context.delivery.reject({ condition: 'app:poison', description: 'cannot be read' });
      setTimeout(() => finish(connection, seen), 200);
      return;
    }
    if (again) context.delivery.accept();
    else if (body === 'released') context.delivery.release();
    else context.delivery.modified({ delivery_failed: true });
    receiver.add_credit(1);
  });
}
