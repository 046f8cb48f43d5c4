/**
 * A fleet of proxies without agents beside real Consul servers, simulated in this process from one
 * address: connections and memory of the servers, the time until all are served, the time until all know
 * of a change, and the effect of the leader's death.
 *
 *     deno run -A scripts/fleet.ts -proxies 200 -servers 1
 *     deno run -A scripts/fleet.ts -proxies 1000 -servers 3 -signs no
 *
 * @module
 */

import process from "node:process";
import { PROXY_FLAGS } from "../src/consul/model/flag_names.ts";
import type { ServersOptions } from "../src/consul/servers/types.ts";
import { sleep, systemClock } from "../src/base/mod.ts";
import { type Cluster, SERVER_NAME, startCluster } from "../test/kit/mesh/cluster.ts";
import { eventually } from "../test/kit/process/process.ts";
import { Member } from "./fleet/member.ts";
import { serverFacts } from "./fleet/server_facts.ts";

const DEADLINE_MS = 90_000;
const UPSTREAMS = 3;
/** Proxies on one node of the catalog. */
const PER_NODE = 20;
const SERVICES = 50;

function argument(name: string, fallback: string): string {
  const at = process.argv.indexOf(`-${name}`);
  return at < 0 ? fallback : process.argv[at + 1] ?? fallback;
}

const count = Number(argument("proxies", "200"));
const servers = argument("servers", "1") === "3" ? 3 : 1;
const signs = argument("signs", "yes") === "yes";
/** Seconds over which the proxies begin. */
const spreadMs = 1_000 * Number(argument("spread", "0"));
/** Consul's own limit of connections from an address, as far as it lasts. */
const connectionsPerClient = Number(argument("limit", "200"));

function say(text: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
}

async function until(what: string, fact: () => boolean): Promise<number> {
  const beganMs = performance.now();
  while (!fact()) {
    if (performance.now() - beganMs > DEADLINE_MS) throw new Error(`never happened: ${what}`);
    await sleep(systemClock, 10);
  }
  return performance.now() - beganMs;
}

const proxyOf = (at: number) => ({
  node: `node-${Math.floor(at / PER_NODE)}`,
  service: `service-${at % SERVICES}`,
  proxyId: `proxy-${at}`,
  upstreams: Array.from(
    { length: UPSTREAMS },
    (_, more) => `service-${(at + more + 1) % SERVICES}`,
  ),
});

async function register(cluster: Cluster): Promise<void> {
  for (let begin = 0; begin < count; begin += 50) {
    const some = Array.from({ length: Math.min(50, count - begin) }, (_, at) => begin + at);
    await Promise.all(some.map(async (at) => {
      const { node, service, proxyId, upstreams } = proxyOf(at);
      await cluster.put("/v1/catalog/register", {
        Node: node,
        Address: "10.0.0.1",
        NodeMeta: { "synthetic-node": "true" },
        Service: {
          ID: proxyId,
          Service: `${service}-sidecar-proxy`,
          Kind: "connect-proxy",
          Port: 20000,
          Proxy: {
            DestinationServiceName: service,
            LocalServicePort: 8080,
            Upstreams: upstreams.map((DestinationName, more) => ({
              DestinationName,
              LocalBindPort: 9000 + more,
            })),
          },
        },
      });
    }));
  }
}

const quantile = (sorted: readonly number[], part: number) =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0);

function spread(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  return `median ${quantile(sorted, 0.5)} ms, 99 % ${quantile(sorted, 0.99)} ms, all ${
    quantile(sorted, 1)
  } ms`;
}

async function tellServers(cluster: Cluster, when: string): Promise<void> {
  const { httpPort, grpcPort } = cluster;
  for (const { host, process } of cluster.members) {
    if (!process) continue;
    say(`  ${when} ${host}: ${await serverFacts({ pid: process.pid, host, httpPort, grpcPort })}`);
  }
}

/** Writes a rule for every service; how long until each member has it. */
async function change(
  cluster: Cluster,
  { members, source }: { readonly members: readonly Member[]; readonly source: string },
): Promise<string> {
  const times: number[] = [];
  const before = performance.now();
  const wanted = `default/${source} =>`;
  const left = new Set(members);
  for (const member of members) {
    member.onRules = () => {
      if (!member.intentions?.some(({ rule }) => rule.startsWith(wanted))) return;
      if (left.delete(member)) times.push(performance.now() - before);
    };
  }
  // A new leader may not take the rule yet.
  await eventually(
    "the rule is taken",
    () => cluster.intention(source, "*", "allow").then(() => true),
  );
  await until("all know of the change", () => left.size === 0);
  return spread(times);
}

function tellFailures(members: readonly Member[], when: string): void {
  const all = new Map<string, number>();
  for (const { failures } of members) {
    for (const [code, times] of failures) all.set(code, (all.get(code) ?? 0) + times);
    failures.clear();
  }
  const text = [...all].map(([code, times]) => `${code} ${times}`).join(", ");
  const losses = members.reduce((sum, { losses }) => sum + losses, 0);
  say(`  ${when}: failures reported: ${text || "none"}; losses: ${losses}`);
}

async function run(cluster: Cluster): Promise<void> {
  await register(cluster);
  await tellServers(cluster, "idle");
  const options: Omit<ServersOptions, "node"> = {
    places: { kind: "names", names: cluster.members.map(({ host }) => host) },
    grpcPort: cluster.grpcPort,
    httpPort: cluster.httpPort,
    watchServers: true,
    tls: {
      caFile: cluster.tls.caFile,
      caPath: "",
      certFile: "",
      keyFile: "",
      serverName: SERVER_NAME,
      verify: true,
    },
    token: "",
    tokenFile: "",
    login: null,
    datacenter: "",
    namespace: "",
    partition: "",
    names: PROXY_FLAGS,
  };
  const beganMs = performance.now();
  const members: Member[] = [];
  try {
    for (let at = 0; at < count; at++) {
      const { node, ...proxy } = proxyOf(at);
      members.push(new Member({ servers: { ...options, node }, signs, ...proxy }));
      if (spreadMs > 0) await sleep(systemClock, spreadMs / count);
      else if (at % 20 === 0) await sleep(systemClock, 1);
    }
    await until("all are served", () => members.every(({ servedMs }) => servedMs > 0)).catch(
      (error) => {
        const missing = members.flatMap(({ missing }) => missing.map((name) => name.split(" ")[0]));
        say(
          `missing: ${
            JSON.stringify(Object.groupBy(missing, (name) => name ?? ""), null, 0).slice(0, 300)
          }`,
        );
        throw error;
      },
    );
    say(`served: ${spread(members.map(({ servedMs }) => servedMs - beganMs))}`);
    await tellServers(cluster, "served");
    tellFailures(members, "start");
    await sleep(systemClock, 5_000);
    const requests = () => members.reduce((sum, member) => sum + member.requests(), 0);
    const before = requests();
    await sleep(systemClock, 10_000);
    say(`quiet: ${((requests() - before) / 10).toFixed(1)} requests a second of all`);
    say(`change: ${await change(cluster, { members, source: "one" })}`);
    tellFailures(members, "change");
    if (servers > 1) await loseLeader(cluster, members);
  } finally {
    for (const member of members) member.close();
  }
}

async function loseLeader(cluster: Cluster, members: readonly Member[]): Promise<void> {
  const dead = await cluster.waitForLeader();
  await tellServers(cluster, "before");
  await cluster.killServer(dead);
  const killedMs = performance.now();
  // The others go on naming the dead one for a while.
  while (await cluster.waitForLeader() === dead) await sleep(systemClock, 20);
  say(`leader killed, another after ${Math.round(performance.now() - killedMs)} ms`);
  say(`change after it: ${await change(cluster, { members, source: "two" })}`);
  await until("no watch fails", () => members.every(({ failing }) => failing === 0));
  say(`no watch fails ${Math.round(performance.now() - killedMs)} ms after the kill`);
  await tellServers(cluster, "after");
  tellFailures(members, "leader");
}

say(
  `${count} proxies, ${servers} servers, ${signs ? "with" : "without"} certificates, at most ` +
    `${connectionsPerClient} connections from an address`,
);
const cluster = await startCluster({
  servers,
  tls: true,
  config: { limits: { http_max_conns_per_client: connectionsPerClient } },
});
try {
  await run(cluster);
} finally {
  await cluster[Symbol.asyncDispose]();
}
process.exit(0);
