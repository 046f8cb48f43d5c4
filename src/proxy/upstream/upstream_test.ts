import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { declared, snapshotOf, targetOf } from "../../../test/kit/engine/snapshots.ts";

for (
  const balancing of [
    { kind: "ring_hash", minimumSize: 64, maximumSize: 64 },
    { kind: "maglev" },
  ] as const
) {
  test(`connections of one caller go to one endpoint with ${balancing.kind}, once the chain has it`, async () => {
    const first = snapshotOf({
      ca: createAuthority(),
      service: "web",
      upstreams: [{ name: "db" }],
      targets: [targetOf({ name: "db", uris: [], ports: [1, 2, 3, 4] })],
    });
    await using path = await startMemoryPath(first);
    const { engine, port } = path;
    const dialled = () => {
      const before = engine.dials.length;
      for (let count = 0; count < 20; count++) engine.call(port("db"));
      const addresses = engine.dials.slice(before).map(({ options }) => options.address);
      return new Set(addresses.map((address) => JSON.stringify(address))).size;
    };
    assert.equal(dialled(), 4);
    await path.set({ ...first, version: -1, ...declared({ name: "db", balancing }) });
    assert.equal(dialled(), 1);
  });
}
