/**
 * `postern check`: is this configuration one that `postern proxy` would start with? Opens no listener
 * and changes nothing; flags and files are read, the agent is not asked.
 *
 * @module
 */

import process from "node:process";
import { type ProxyError, silentLog, Stats, systemClock } from "../base/mod.ts";
import { resolveAgentOptions } from "../consul/mod.ts";
import { FileSource, type Snapshot } from "../snapshot/mod.ts";
import type { ProxyOptions } from "./args.ts";

/** Prints what is fine; throws `config_invalid` with what is not. The exit code. */
export async function runCheck(options: ProxyOptions): Promise<number> {
  for (const line of await check(options)) process.stdout.write(`${line}\n`);
  return 0;
}

async function check(options: ProxyOptions): Promise<readonly string[]> {
  const { mode } = options;
  if (mode.kind !== "config") {
    const { address } = resolveAgentOptions(options.agentFlags, process.env);
    const where = address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
    return [...options.warnings, `flags and environment are valid; the agent is at ${where}`];
  }
  const source = new FileSource({
    file: mode.file,
    clock: systemClock,
    log: silentLog,
    stats: new Stats(),
    strictSpiffeChain: options.strictSpiffeChain,
  });
  const snapshot = await new Promise<Snapshot>((resolve, reject) => {
    source.start(resolve, (error: ProxyError) => reject(error));
  });
  await source.close();
  const upstreams = Object.keys(snapshot.upstreams).length;
  return [
    ...options.warnings,
    ...snapshot.refused.map(({ what, reason }) => `not taken: ${what}: ${reason}`),
    `${mode.file} is valid: service ${snapshot.service}, ${upstreams} upstreams, ` +
    `${snapshot.policy.intentions.length} intentions, certificate until ` +
    new Date(snapshot.credentials.notAfterMs).toISOString(),
  ];
}
