/**
 * Postern, and consul-dataplane with Envoy, beside the same three servers with ACLs and TLS, each with a
 * pair of services registered in the same shape: the traffic after each step, the memory and
 * connections, and the effect of the end of the token that they logged in with. Prints one table.
 *
 *     CONSUL_DATAPLANE_BIN=... deno run -A scripts/side_by_side.ts
 *
 * @module
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startCluster } from "../test/kit/mesh/cluster.ts";
import { loginsOf } from "../test/kit/mesh/login.ts";
import { pause } from "../test/kit/process/process.ts";
import { ComparedPair } from "./side_by_side/compared_pair.ts";
import { DATAPLANE, dataplaneProgram, POSTERN } from "./side_by_side/sides.ts";

const SIDES = [POSTERN, DATAPLANE];
/** The shortest that Consul gives a token. */
const LOGIN_LIFE_S = 60;

async function main(): Promise<void> {
  dataplaneProgram();
  const rows: string[][] = [];
  const row = async (what: string, how: (pair: ComparedPair) => Promise<string>) => {
    const cells = await Promise.all(pairs.map(how));
    rows.push([what, ...cells]);
    console.error([what, ...cells].join(" | "));
  };
  await using cluster = await startCluster({ servers: 3, acl: true, tls: true });
  await using own = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "postern-side-by-side-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const pairs = SIDES.map((side) => own.use(new ComparedPair(cluster, side)));

  for (const pair of pairs) await pair.register();
  // One after the other: they must not wait for each other's processor.
  const started: string[] = [];
  for (const pair of pairs) started.push(await pair.start());
  rows.push(["start: first echo through both", ...started]);
  await pause(10_000);
  await row("memory of web's sidecar, idle (PSS, RSS)", (pair) => pair.memory());
  await row("connections of it to servers", (pair) => pair.connections());
  await row("intention denied", (pair) => pair.deny());
  await row("intention allowed", (pair) => pair.allow());
  await row("upstream added", (pair) => pair.addUpstream());
  await row("instance gone", (pair) => pair.loseInstance());

  for (const pair of pairs) await pair.rememberLeaf();
  await cluster.rotateCa();
  await row("roots rotated", (pair) => pair.followsRotation());

  const leader = await cluster.waitForLeader();
  await cluster.killServer(leader);
  await row("leader killed: what was open, and new", (pair) => pair.serves());
  await cluster.waitForLeader();
  await row("... intention denied afterwards", (pair) => pair.deny());
  await row("... intention allowed", (pair) => pair.allow());
  await cluster.startServer(leader);
  await cluster.waitForHealth();

  // Both proxies move on when their server is silent: each pair's own server hangs in turn.
  const cells: string[][] = [[], []];
  for (const pair of pairs) {
    const hung = await pair.server();
    cluster.hang(hung);
    cells[0]?.push(await pair.serves());
    cells[1]?.push(await pair.deny());
    cluster.resume(hung);
    await cluster.waitForHealth();
    await pair.allow();
  }
  rows.push(["server in use hung: what was open, and new", ...cells[0] ?? []]);
  rows.push(["... intention denied afterwards", ...cells[1] ?? []]);
  await row("memory at the end (PSS, RSS)", (pair) => pair.memory());

  const logins = loginsOf(cluster, { directory, ttl: `${LOGIN_LIFE_S}s` });
  await logins.create();
  for (const pair of pairs) await pair.loginInstead(logins, directory);
  await row("logged in: serves", (pair) => pair.serves());
  await pause((LOGIN_LIFE_S + 15) * 1_000);
  await row(`${LOGIN_LIFE_S + 15} s later, the login's ${LOGIN_LIFE_S} s over`, (p) => p.serves());
  await row("... intention denied", (pair) => pair.deny());

  console.log(table(["", "Postern", "consul-dataplane + Envoy"], rows));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0))
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

await main();
