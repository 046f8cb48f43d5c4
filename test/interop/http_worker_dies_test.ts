/**
 * A data worker is killed under requests of both protocols: those that it had begun end for their
 * callers, all else goes on, and nothing reaches the application twice.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { HttpLoad } from "../kit/wire/http_load.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { RawClient, statusOf } from "../kit/wire/http_raw.ts";
import { eventually } from "../kit/process/process.ts";
import { httpRules } from "../kit/engine/snapshots.ts";
import { startWorkerRig } from "../kit/engine/worker_rig.ts";

const CLIENTS = { keptAlive: 4, shortLived: 2, http2: 2 };
/** Each HTTP/2 client has four under way. */
const MOST_UNDER_WAY = 4 + 2 + 2 * 4;
const ENOUGH = 300;

for (const protocol of ["http", "http2"] as const) {
  test(`${protocol}: a worker that dies under load loses only the requests it had begun`, async () => {
    await using origin = await startCountingOrigin({ protocol });
    await using rig = await startWorkerRig({ app: origin, http: httpRules(protocol) });
    await using load = new HttpLoad(rig.upstream, origin.counts, CLIENTS);
    const more = async (count: number) => {
      const until = load.result.exchanges + count;
      await eventually(`${count} more requests`, () => load.result.exchanges >= until);
    };
    await more(ENOUGH);
    rig.kill(0);
    await eventually("it is said", () => {
      return rig.lines.some(({ message }) => message.startsWith("data worker died"));
    });
    // At once, not when another has taken its place; except for connections that the kernel gave to
    // the dead one's sockets before the engine closed them.
    let unanswered = 0;
    for (let times = 0; times < 20; times++) {
      const request = `GET /now/${times} HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n`;
      const answer = await RawClient.ask(rig.upstream, request).catch(() => undefined);
      if (answer) assert.equal(statusOf(answer), 200, answer.raw);
      else unanswered++;
    }
    assert.ok(unanswered <= 2, `${unanswered} of 20 were not answered`);
    await more(ENOUGH);
    const { errors, messages } = load.result;
    assert.ok(errors <= MOST_UNDER_WAY, messages.join("\n"));
    await more(ENOUGH);
    const { repeated, invented, ...last } = await load.stop();
    assert.equal(last.errors, errors, messages.join("\n"));
    assert.equal(invented, 0);
    // Only a request without a body may have been begun twice.
    for (const path of repeated) assert.equal(Number(path.split("/")[2]) % 2, 0, path);
    await eventually("both workers serve, and no request is open", async () => {
      const views = await rig.plane.views({ connections: true });
      return views.length === 2 && views.every(({ listeners, connections }) => {
        return listeners.every(({ state }) => state === "listening") &&
          connections.every(({ http }) => http?.open === 0);
      });
    });
  });
}
