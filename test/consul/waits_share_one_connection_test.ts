/**
 * A proxy beside a real server: over TLS all of its waits are one HTTPS connection, without TLS they are
 * three connections and two for each upstream; news come either way.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Member } from "../../scripts/fleet/member.ts";
import { PROXY_FLAGS } from "../../src/consul/model/flag_names.ts";
import { type Cluster, SERVER_NAME, startCluster } from "../kit/mesh/cluster.ts";
import { eventually } from "../kit/process/process.ts";

const UPSTREAMS = Array.from({ length: 20 }, (_, at) => `upstream-${at}`);

/** Connections that are open to the server's HTTP port. */
async function connections({ httpPort, members }: Cluster): Promise<number> {
  const hex = (value: number, digits: number) =>
    value.toString(16).toUpperCase().padStart(digits, "0");
  const bytes = members[0]?.host.split(".").reverse().map((byte) => hex(Number(byte), 2)) ?? [];
  const local = `${bytes.join("")}:${hex(httpPort, 4)}`;
  const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n");
  // Columns: slot, local address, remote address, state (01: established).
  return lines.map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[1] === local && columns[3] === "01").length;
}

for (
  const [tls, wanted] of [[true, 1], [false, 3 + 2 * UPSTREAMS.length]] as const
) {
  test(`a proxy of twenty upstreams has ${wanted} connections ${tls ? "over TLS" : "without TLS"}`, async () => {
    await using cluster = await startCluster({ servers: 1, tls });
    const id = await cluster.register({
      name: "web",
      upstreams: UPSTREAMS.map((name, at) => ({ name, port: 9_000 + at })),
    });
    const member = new Member({
      servers: {
        places: { kind: "names", names: cluster.members.map(({ host }) => host) },
        grpcPort: cluster.grpcPort,
        httpPort: cluster.httpPort,
        watchServers: true,
        tls: tls
          ? {
            caFile: cluster.tls.caFile,
            caPath: "",
            certFile: "",
            keyFile: "",
            serverName: SERVER_NAME,
            verify: true,
          }
          : null,
        node: cluster.nodeOf(id),
        token: "",
        tokenFile: "",
        login: null,
        datacenter: "",
        namespace: "",
        partition: "",
        names: PROXY_FLAGS,
      },
      proxyId: `${id}-sidecar-proxy`,
      service: "web",
      upstreams: UPSTREAMS,
      signs: true,
    });
    try {
      await eventually("everything is there", () => member.missing.length === 0);
      await eventually(
        "what was asked is answered or waits",
        async () => await connections(cluster) <= wanted,
      );
      await cluster.intention("one", "web", "allow");
      await eventually("the rule is there", () => member.intentions?.length === 1);
      await cluster.intention("one", "web", undefined);
      await eventually("the rule is gone", () => member.intentions?.length === 0);
      // One that was just given up may still be there on the server's side.
      await eventually(`${tls ? "" : "at most "}${wanted} connections`, async () => {
        const seen = await connections(cluster);
        return tls ? seen === wanted : seen <= wanted;
      });
      assert.deepEqual([...member.failures.keys()], []);
    } finally {
      member.close();
    }
  });
}
