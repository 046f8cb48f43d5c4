import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import {
  GET,
  headers,
  PREFACE,
  RawPeer,
  repeat,
  settings,
} from "../../../test/kit/wire/http2_wire.ts";
import { callAs } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const SNAPSHOT = withInbound(
  snapshotOf({
    ca: CA,
    service: "db",
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    intentions: [intention("web", "allow"), intention("pay", "allow")],
  }),
  { http: httpRules("http") },
);

/** Another connection of the service; its streams are asked for at once, and answered by nobody. */
async function flood({ path, engine }: MemoryPath, service: string, streams: number) {
  const port = Number(path.listeners()[0]?.address.split(":").at(-1));
  const leaf = CA.issueLeaf({ service });
  const end = engine.callSecurely(port).prove(presented(leaf, { protocol: "h2" }));
  const peer = new RawPeer(end.connection);
  await peer.send(PREFACE, settings(), ...repeat(streams, (at) => headers(2 * at + 1, GET)));
  return { end, refused: () => peer.frames.words.filter((word) => word.includes(":status=503")) };
}

test("a caller that fills the local application's requests leaves places for others", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const greedy = await flood(path, "web", 1_000);
  assert.equal(greedy.refused().length, 1_000 - 896);
  // Another connection of the same caller has no share of its own.
  assert.equal((await flood(path, "web", 10)).refused().length, 10);
  const line = path.lines.find(({ message }) => message === "request failed");
  assert.equal(
    line?.fields.reason,
    "the local application is given 1024 requests at once, and the last places are kept for other callers",
  );
  const answers = { web: 503, pay: undefined };
  for (const [source, status] of Object.entries(answers)) {
    const asked = { to: { kind: "inbound" }, source, method: "GET", host: undefined } as const;
    const told = await path.path.explain({ ...asked, path: "/", headers: [], connects: false });
    assert.ok(told?.kind === "answer", JSON.stringify(told));
    assert.equal(told.explanation.answer?.status, status);
  }
  const other = callAs("pay", path, CA);
  other.send("GET /other HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  const apps = path.engine.dials.map((dial) => dial.connect());
  await settle();
  const asked = apps.find(({ received }) => received.includes("GET /other"));
  asked?.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await settle();
  assert.match(other.received, /^HTTP\/1\.1 200 /);
  // What the first one gives back it may take again.
  greedy.end.connection.reset();
  await settle();
  assert.equal((await flood(path, "web", 10)).refused().length, 0);
});
