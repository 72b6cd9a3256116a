// SPDX-License-Identifier: Apache-2.0
// Publishes, subscribes with a wildcard and a selector, leaves a durable subscription and comes back to it,
// unsubscribes, and shares a subscription between two connections. The "queue" is a topic here.
'use strict';

const { rhea, connect, content, finish, queue: topic } = require('./scenario');

const address = `topic://${topic}`;
const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve));
const named = (id) => rhea.create_container({ id });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const durable = { address, durable: 2, expiry_policy: 'never', capabilities: ['topic'] };

// All that a receiver gets, in order.
const gather = (receiver) => {
  const got = [];
  receiver.on('message', (context) => {
    const message = context.message;
    got.push([content(message.body), message.to, (message.message_annotations || {})['x-opt-retained'] || false]);
  });
  return got;
};

const until = async (condition) => {
  while (!condition()) await pause(5);
};

(async () => {
  const result = {};
  const publisher = connect(named('publisher'));
  const sender = publisher.open_sender({ target: { address: topic, capabilities: ['topic'] } });
  await once(sender, 'sendable');
  const publish = async (body, extra = {}) => {
    sender.send({ body, durable: true, ...extra });
    await once(sender, 'accepted');
  };

  await publish('kept', { message_annotations: { 'x-opt-retain': true } });
  const plain = connect(named('plain'));
  const wild = plain.open_receiver({ source: `${address}/#` });
  const chosen = plain.open_receiver({ source: { address, filter: rhea.filter.selector("colour = 'red'") } });
  const all = gather(wild);
  const some = gather(chosen);
  await Promise.all([once(wild, 'receiver_open'), once(chosen, 'receiver_open')]);
  await publish('blue', { application_properties: { colour: 'blue' } });
  await publish('red', { application_properties: { colour: 'red' } });
  await until(() => all.length === 3 && some.length === 1);
  result.all = [...all];
  result.some = [...some];

  let client = connect(named('reader'));
  let receiver = client.open_receiver({ name: 'sub', source: durable });
  let got = gather(receiver);
  await until(() => got.length === 1); // what was retained
  receiver.detach();
  await once(receiver, 'receiver_close');
  await publish('while detached');
  client.close();
  await once(client, 'connection_close');
  await publish('while away');
  client = connect(named('reader'));
  receiver = client.open_receiver({ name: 'sub', source: durable });
  got = gather(receiver);
  await until(() => got.length === 2);
  result.resumed = got.map((each) => each[0]);

  await pause(50); // until they are accepted
  receiver.close(); // which unsubscribes
  await once(receiver, 'receiver_close');
  const again = client.open_receiver({ name: 'again', source: { ...durable, capabilities: ['topic', 'shared'] } });
  const shared = [gather(again)];
  await once(again, 'receiver_open');
  const other = connect(named('reader'));
  const partner = other.open_receiver({ name: 'again|2', source: { ...durable, capabilities: ['topic', 'shared'] } });
  shared.push(gather(partner));
  await once(partner, 'receiver_open');
  await until(() => shared[0].length + shared[1].length === 1); // what was retained
  for (let number = 0; number < 10; number++) await publish(`shared ${number}`);
  await until(() => shared[0].length + shared[1].length === 11);
  await pause(50);
  result.shared = shared.flat().map((each) => each[0]).sort();
  partner.close();
  await once(partner, 'receiver_error');
  result.inUse = partner.error.condition;
  again.close();
  await once(again, 'receiver_close');

  const wrong = publisher.open_sender(`${address}/+`);
  await once(wrong, 'sender_error');
  result.wrong = wrong.error.condition;
  for (const each of [plain, client, other]) each.close();
  finish(publisher, result);
})();
