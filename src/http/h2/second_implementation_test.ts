import assert from "node:assert/strict";
import http2 from "node:http2";
import test from "node:test";
import { bytes, ExchangeRecorder, requestHead } from "../../../test/kit/wire/http2_pair.ts";
import { startHttp2Server } from "../../../test/kit/wire/http2_server.ts";
import { Deadlines, systemClock } from "../../base/mod.ts";
import { type Connection, runtimeEngine } from "../../net/mod.ts";
import { fieldOf } from "../head.ts";
import { DEFAULT_HTTP_LIMITS } from "../exchange.ts";
import { openHttp2Client } from "./client.ts";

/** Fields of many shapes, some repeated, so that both tables and Huffman codes are used. */
function fields(round: number): Record<string, string> {
  return {
    "x-same": "the same every time",
    "x-round": `round ${round}`,
    "x-latin": "caf\xe9 \x80\xff",
    "x-odd": '<>{}|\\^~\t`"',
    [`x-name-${round % 5}`]: "v".repeat(round * 37 % 500),
    authorization: "Bearer secret",
  };
}

const SIZE = 300_000;

test("the runtime's HTTP/2 client and our server exchange fields and large bodies", async () => {
  await using server = await startHttp2Server();
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  try {
    for (let round = 0; round < 30; round++) {
      const { headers, body } = await exchange(
        session,
        fields(round),
        round % 10 === 0 ? SIZE : 10,
      );
      for (const [name, value] of Object.entries(fields(round))) {
        if (name !== "x-latin") assert.equal(headers[name], value, name);
      }
      assert.equal(body, round % 10 === 0 ? SIZE : 10);
    }
    const many = await Promise.all(
      Array.from({ length: 50 }, (_, i) => exchange(session, fields(i), 20_000)),
    );
    assert.deepEqual(many.map(({ body }) => body), Array.from({ length: 50 }, () => 20_000));
  } finally {
    session.destroy();
  }
});

test("the runtime's HTTP/2 server and our client exchange fields and large bodies", async () => {
  const server = http2.createServer();
  server.on("stream", (stream: http2.ServerHttp2Stream, headers) => {
    const back = Object.fromEntries(Object.entries(headers).filter(([name]) => /^x-/.test(name)));
    stream.respond({ ":status": 200, ...back });
    stream.pipe(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address && typeof address === "object");
  const stream = await dial(address.port);
  const client = openHttp2Client(stream, {
    limits: DEFAULT_HTTP_LIMITS,
    clock: systemClock,
    deadlines: new Deadlines(systemClock),
    events: { onCapacity: () => {}, onClose: () => {} },
  });
  try {
    for (let round = 0; round < 30; round++) {
      const sent = fields(round);
      const recorded = new ExchangeRecorder();
      const over = new Promise<void>((resolve) =>
        recorded.then = () => recorded.ended && resolve()
      );
      const list = Object.entries(sent).flatMap(([name, value]) => [name, value, name]);
      const asked = client.request(
        requestHead({ method: "POST", length: -1, fields: list }),
        false,
        recorded,
      );
      const size = round % 10 === 0 ? SIZE : 10;
      for (let left = size; left > 0; left -= 10_000) {
        asked.send(bytes("x".repeat(Math.min(left, 10_000))));
      }
      asked.end();
      await over;
      assert.equal(recorded.bytes, size);
      for (const [name, value] of Object.entries(sent)) {
        if (/^x-(?!latin)/.test(name)) {
          assert.equal(fieldOf(recorded.response?.fields ?? [], name), value, name);
        }
      }
    }
  } finally {
    client.reset("");
    server.close();
  }
});

function exchange(
  session: http2.ClientHttp2Session,
  headers: Record<string, string>,
  size: number,
): Promise<{ headers: Record<string, unknown>; body: number }> {
  return new Promise((resolve, reject) => {
    const request = session.request({ ":method": "POST", ":path": "/", ...headers });
    let answer: Record<string, unknown> = {};
    let body = 0;
    request.on("response", (came) => answer = came);
    request.on("data", (chunk: Uint8Array) => body += chunk.length);
    request.on("end", () => resolve({ headers: answer, body }));
    request.on("error", reject);
    request.end(Buffer.alloc(size, 0x61));
  });
}

function dial(port: number): Promise<Connection> {
  return new Promise((resolve, reject) => {
    runtimeEngine().dial({ address: { kind: "tcp", host: "127.0.0.1", port } }, {
      onConnected: resolve,
      onFailed: (_stage, reason) => reject(new Error(reason)),
    });
  });
}
