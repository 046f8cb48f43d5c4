import { strict as assert } from "node:assert";
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { AdminConnectionLimit } from "./http_server.ts";

function rig() {
  const clock = new FakeClock();
  const limit = new AdminConnectionLimit(clock);
  const enter = () => {
    const socket = Object.assign(new EventEmitter(), {
      destroyed: false,
      destroy() {
        socket.destroyed = true;
        socket.emit("close");
      },
    });
    limit.enter(socket as unknown as Socket);
    return socket as unknown as Socket;
  };
  const serve = (socket: Socket, isProbe = false) => {
    const answer = new EventEmitter();
    const served = limit.serve(socket, answer as unknown as ServerResponse, isProbe);
    return { served, done: () => void answer.emit("close") };
  };
  return { clock, enter, serve };
}

test("AdminConnectionLimit closes the connection that has been idle longest since its last response", () => {
  const { enter, serve } = rig();
  const [first, second, ...others] = Array.from({ length: 64 }, enter);
  assert.ok(first && second);
  serve(first).done();
  const late = enter();
  assert.deepEqual([first, second, late].map(({ destroyed }) => destroyed), [false, true, false]);
  assert.ok(others.every(({ destroyed }) => !destroyed));
});

test("AdminConnectionLimit keeps two places for probes, and closes busy connections after 10 s only", async () => {
  const { clock, enter, serve } = rig();
  const busy = Array.from({ length: 62 }, enter);
  const answers = busy.map((socket) => serve(socket));
  const [other, probe] = [enter(), enter()];
  assert.equal(serve(other).served, false);
  assert.equal(serve(other, true).served, true);
  assert.equal(serve(probe, true).served, true);
  assert.equal(enter().destroyed, true);
  await clock.advance(10_000);
  assert.equal(enter().destroyed, false);
  assert.deepEqual(busy.map(({ destroyed }) => destroyed).lastIndexOf(true), 0);
  // The response of a closed connection frees no place.
  answers[0]?.done();
  for (const { done } of answers.slice(1, 3)) done();
  assert.equal(serve(enter()).served, true);
});

test("AdminConnectionLimit counts a connection as busy until all its responses have ended", () => {
  const { enter, serve } = rig();
  const socket = enter();
  const [first, second] = [serve(socket), serve(socket)];
  first.done();
  for (let count = 0; count < 100; count++) enter();
  assert.equal(socket.destroyed, false);
  second.done();
  for (let count = 0; count < 64; count++) enter();
  assert.equal(socket.destroyed, true);
});
