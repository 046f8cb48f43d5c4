import assert from "node:assert/strict";
import { test } from "node:test";
import { countConnections } from "./count_connections.ts";

const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
const TCP4 = [
  HEAD,
  "   0: 0100007F:2134 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0",
  "   1: 0100007F:9C40 0100007F:2134 01 00000000:00000000 00:00000000 00000000     0",
  "   2: 0100007F:9C41 0100007F:2134 01 00000000:00000000 00:00000000 00000000     0",
  "   3: 0100007F:9C42 0100007F:2134 06 00000000:00000000 00:00000000 00000000     0",
  "   4: 0100007F:2134 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0",
  "   5: 0100007F:9C43 0200007F:2134 01 00000000:00000000 00:00000000 00000000     0",
  "   6: 0100007F:9C44 0100007F:2135 01 00000000:00000000 00:00000000 00000000     0",
].join("\n");
const TCP6 = [
  HEAD,
  "   0: 00000000000000000000000001000000:9C40 00000000000000000000000001000000:2134 01 0:0 0",
  "   1: B80D0120000000000000000001000000:9C40 B80D0120000000000000000002000000:2134 01 0:0 0",
].join("\n");

for (
  const [host, port, want] of [
    ["127.0.0.1", 8500, 2],
    ["127.0.0.2", 8500, 1],
    ["127.0.0.1", 8502, 0],
    ["::1", 8500, 1],
    ["2001:db8::2", 8500, 1],
  ] as const
) {
  test(`countConnections() counts ${want} to ${host} port ${port}`, async () => {
    const list = (version: 4 | 6) => Promise.resolve(version === 4 ? TCP4 : TCP6);
    assert.equal(await countConnections({ kind: "tcp", host, port }, list), want);
  });
}

test("countConnections() returns undefined without the list, and for a unix socket", async () => {
  const none = () => Promise.resolve(undefined);
  const agent = { kind: "tcp", host: "127.0.0.1", port: 8500 } as const;
  assert.equal(await countConnections(agent, none), undefined);
  assert.equal(await countConnections({ kind: "unix", path: "/run/consul.sock" }), undefined);
});
