/**
 * Requests of both protocols while the world changes under them: each is answered, and none reaches the
 * application twice, wherever a correct proxy could see to it.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import type { Place } from "../kit/wire/echo.ts";
import { assertExactlyOnce, HttpLoad, type HttpLoadOptions } from "../kit/wire/http_load.ts";
import {
  type CountingOrigin,
  RequestCounts,
  startCountingOrigin,
} from "../kit/wire/http_origin.ts";
import { ALLOW_WEB, type FilePair, startFilePair } from "../kit/mesh/file_pair.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import { eventually } from "../kit/process/process.ts";

const CLIENTS: HttpLoadOptions = { keptAlive: 3, shortLived: 2, http2: 1 };
const ENOUGH = 300;
/** A response that had begun, and could not be brought to its end. */
const BROKEN_OFF = /: Connection ended in a response: "HTTP\/1\.1 200 |: in a response of 200: /;

interface Scene extends AsyncDisposable {
  readonly pair: FilePair;
  readonly load: HttpLoad;
  readonly origins: readonly CountingOrigin[];
  /** Lets so many requests pass. */
  more(count: number): Promise<void>;
}

async function scene(
  protocol: "http" | "http2",
  options: { readonly instances?: number; readonly args?: readonly string[] } = {},
): Promise<Scene> {
  await using own = new AsyncDisposableStack();
  const counts = new RequestCounts();
  const origins: CountingOrigin[] = [];
  for (let at = 0; at < (options.instances ?? 1); at++) {
    origins.push(own.use(await startCountingOrigin({ protocol, counts })));
  }
  const { args = [] } = options;
  const pair = own.use(await startFilePair({ protocol, apps: origins, args }));
  const load = own.use(new HttpLoad(pair.upstream, counts, CLIENTS));
  const stack = own.move();
  return {
    pair,
    load,
    origins,
    async more(count) {
      const until = load.result.exchanges + count;
      await eventually(`${count} more requests`, () => load.result.exchanges >= until);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

for (const protocol of ["http", "http2"] as const) {
  test(`${protocol}: rotations of leaf and root lose no request`, async () => {
    await using on = await scene(protocol);
    await on.more(ENOUGH);
    await on.pair.rotate({ root: false });
    await on.more(ENOUGH);
    await on.pair.rotate({ root: true });
    await on.more(ENOUGH);
    assertExactlyOnce(await on.load.stop(), { atLeast: 3 * ENOUGH });
  });

  test(`${protocol}: a drained instance loses no request`, async () => {
    await using on = await scene(protocol, { instances: 2 });
    await on.more(ENOUGH);
    const [first] = on.pair.dbs;
    first?.kill("SIGTERM");
    await on.more(ENOUGH);
    assert.equal((await first?.process.exited)?.code, 0);
    await on.pair.revive(0);
    await on.more(ENOUGH);
    assertExactlyOnce(await on.load.stop(), { atLeast: 3 * ENOUGH });
  });

  test(`${protocol}: a killed instance loses only the requests it had begun`, async () => {
    await using on = await scene(protocol, { instances: 2 });
    await on.more(ENOUGH);
    await on.pair.kill(0);
    await on.more(ENOUGH);
    await on.pair.revive(0);
    await on.more(ENOUGH);
    const { errors, messages, repeated, invented } = await on.load.stop();
    // At most what every client had under way: answers of ours, not silence, but for a response that the
    // instance had begun.
    const most = 3 + 2 + 4;
    assert.ok(errors <= most, `${errors} errors:\n${messages.join("\n")}`);
    for (const message of messages) {
      if (!BROKEN_OFF.test(message)) assert.match(message, /: 503 upstream connect error/);
    }
    assert.equal(invented, 0);
    // Only a request without a body may have been begun twice.
    for (const path of repeated) assert.equal(Number(path.split("/")[2]) % 2, 0, path);
  });

  test(`${protocol}: denied means 403 for every request, until it is allowed again`, async () => {
    await using on = await scene(protocol);
    await on.more(ENOUGH);
    await on.pair.setIntentions([{ source: "web", action: "deny" }]);
    const seen = on.load.result.exchanges;
    const ask = () => RawClient.ask(on.pair.upstream, "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    for (let times = 0; times < 10; times++) {
      const answer = await ask();
      assert.deepEqual([statusOf(answer), answer.body], [403, "RBAC: access denied"]);
    }
    // Exchanges under way when the rules changed may have been answered, nothing since.
    assert.ok(on.load.result.exchanges - seen <= 9);
    await on.pair.setIntentions(ALLOW_WEB);
    await on.more(ENOUGH);
    const { messages, repeated, invented } = await on.load.stop();
    const broken = messages.filter((message) => BROKEN_OFF.test(message));
    assert.ok(broken.length <= 9, broken.join("\n"));
    for (const message of messages) {
      if (!broken.includes(message)) assert.match(message, /: 403 RBAC: access denied$/);
    }
    assert.deepEqual([repeated, invented], [[], 0]);
  });
}

test("an application that ends its kept connections at will loses no request without a body", async () => {
  const counts = new RequestCounts();
  let answered = 0;
  await using origin = await startRawOrigin(({ head, body }, socket) => {
    counts.seen(head.split(" ")[1] ?? "");
    // In order, but without a word beforehand: the next request may already be on its way.
    if (++answered % 7 === 0) {
      socket.end(Buffer.from(answerOf(body), "latin1"));
      return undefined;
    }
    return answerOf(body);
  });
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  await using load = new HttpLoad(pair.upstream, counts, { keptAlive: 4, maxBodyBytes: 0 });
  assertExactlyOnce(await load.stop({ atLeast: ENOUGH }), { atLeast: ENOUGH });
});

test("a response that breaks off in its body breaks off for the client, too", async () => {
  await using origin = await startRawOrigin((_request, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", () => socket.destroy());
    return undefined;
  });
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const ask = async (place: Place) => {
    await using client = await RawClient.open(place);
    client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    const { rest } = await client.ended();
    assert.match(rest, /^HTTP\/1\.1 200 /);
    assert.ok(rest.length < 1000, "it was made whole");
  };
  await ask(pair.upstream);
  assert.equal(origin.requests.length, 1, "it was asked again");
});
