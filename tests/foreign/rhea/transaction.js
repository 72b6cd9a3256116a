// SPDX-License-Identifier: Apache-2.0
// Rhea has no transactions of its own, so their frames are made here as the standard says:
// one that puts two messages is aborted, one that puts two others is committed, and one that
// gets those two is aborted once before it is committed.
'use strict';

const { rhea, connect, content, finish, queue } = require('./scenario');

const types = rhea.types;
const described = (code, fields) => types.described(types.wrap_ulong(code), types.wrap_list(fields));
const accepted = () => described(0x24, []);
const state = (id, ...outcome) => described(0x34, [types.wrap_binary(id), ...outcome]);

console.error = () => {}; // rhea complains about states that it does not know

const connection = connect();
const session = connection.create_session();
session.begin();

let inside; // the transaction in which transfers of `sender` are
const output = session.output.bind(session);
session.output = (frame, payload) => {
  if (inside && payload !== undefined && frame.handle === sender.local.handle) {
    frame.value[6] = frame.value[6] || new types.Null();
    frame.value[7] = state(inside); // rhea has no setter for this field
  }
  return output(frame, payload);
};

const coordinator = session.create_sender('coordinator', {});
coordinator.local.attach.target = described(0x30, []);
coordinator.attach();
const sender = session.open_sender(queue);

const ask = (wish) =>
  new Promise((resolve) => {
    // A message of one value section, ready-made, because rhea drops descriptors of bodies.
    const delivery = coordinator.send(Buffer.concat([Buffer.from([0x00, 0x53, 0x77]), wish]), undefined, 0);
    const settled = (context) => {
      if (context.delivery !== delivery) return;
      coordinator.removeListener('settled', settled);
      resolve(delivery.remote_state);
    };
    coordinator.on('settled', settled);
  });
const declare = async () => {
  const declared = await ask(Buffer.from([0x00, 0x53, 0x31, 0x45]));
  const id = declared.value[0];
  return Buffer.from(id.value !== undefined ? id.value : id);
};
const discharge = (id, fail) =>
  ask(Buffer.concat([Buffer.from([0x00, 0x53, 0x32, 0xc0, id.length + 4, 2, 0xa0, id.length]), id, Buffer.from([fail ? 0x41 : 0x42])]));

const send = (id, ...bodies) =>
  new Promise((resolve) => {
    let settled = 0;
    inside = id;
    const count = () => {
      if (++settled === bodies.length) {
        sender.removeListener('settled', count);
        inside = undefined;
        resolve();
      }
    };
    sender.on('settled', count);
    bodies.forEach((body) => sender.send({ body, durable: true }));
  });

const receive = (id) =>
  new Promise((resolve) => {
    const got = [];
    const receiver = session.open_receiver({ source: queue, credit_window: 0, autoaccept: false });
    receiver.add_credit(2);
    receiver.on('message', (context) => {
      got.push([content(context.message.body), context.message.delivery_count || 0]);
      context.delivery.update(true, state(id, accepted()));
      if (got.length === 2) setTimeout(() => resolve([got, receiver]), 50);
    });
  });

(async () => {
  await new Promise((resolve) => coordinator.once('sendable', resolve));
  const aborted = await declare();
  await send(aborted, 'a', 'b');
  await discharge(aborted, true);

  const committed = await declare();
  await send(committed, 'c', 'd');
  const outcome = await discharge(committed, false);

  const first = await declare();
  const [before, one] = await receive(first);
  await discharge(first, true);
  one.close();

  const second = await declare();
  const [after] = await receive(second);
  await discharge(second, false);

  const unknown = await discharge(Buffer.from('none'), false);
  finish(connection, {
    committed: outcome.constructor.composite_type,
    before,
    after,
    unknown: unknown.error && unknown.error.condition,
  });
})();
