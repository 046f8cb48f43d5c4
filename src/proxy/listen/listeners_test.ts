import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { inboundOf, intention, snapshotOf } from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const PUBLIC = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});
const EXPOSED = inboundOf({ local: { kind: "tcp", host: "127.0.0.1", port: 9090 } });
const BOTH = { ...PUBLIC, inbound: { ...PUBLIC.inbound, exposed: EXPOSED } };

/** Connects a caller of that inbound listener to its application. */
async function open(path: MemoryPath, name: string) {
  const view = path.path.listeners().find((listener) => listener.name === name);
  assert.ok(view, `${name} does not listen`);
  const port = Number(view.address.split(":").at(-1));
  const caller = path.engine.callSecurely(port).prove(presented(WEB));
  const server = path.engine.lastDial.connect();
  await settle();
  const relays = async () => {
    caller.send(name);
    await settle();
    return server.received;
  };
  return { port, relays };
}

test("removing one inbound listener keeps the connections of the others", async () => {
  await using path = await startMemoryPath(BOTH);
  const [own, exposed] = [await open(path, "inbound"), await open(path, "exposed")];
  assert.deepEqual([await own.relays(), await exposed.relays()], ["inbound", "exposed"]);
  assert.deepEqual(
    path.path.listeners().map(({ name, connections }) => [name, connections]),
    [["inbound", 1], ["exposed", 1]],
  );
  await path.set({ ...BOTH, inbound: { exposed: EXPOSED } });
  assert.deepEqual(path.path.listeners().map(({ name }) => name), ["exposed"]);
  assert.deepEqual([await exposed.relays(), path.endings], ["exposedexposed", []]);
  await open(path, "exposed");
  assert.equal(path.taken, 3);
});

test("the limit of one inbound listener does not affect the others", async () => {
  const limited = { ...PUBLIC.inbound, exposed: { ...EXPOSED, maxConnections: 1 } };
  await using path = await startMemoryPath({ ...PUBLIC, inbound: limited });
  const { port } = await open(path, "exposed");
  assert.ok(path.engine.callSecurely(port).gone);
  assert.equal(path.lastEnd.reason, "max_inbound_connections is 1");
  await open(path, "inbound");
  assert.equal(path.taken, 2);
});
