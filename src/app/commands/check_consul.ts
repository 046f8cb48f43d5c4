/**
 * `postern check -sidecar-for ID`: what the agent, or Consul's servers, say of a proxy, and what of that
 * Postern does not do. Opens no listener and registers nothing; the certificate is fetched, since
 * whether it can be had is part of the answer.
 *
 * @module
 */

import process from "node:process";
import {
  type Clock,
  createLog,
  ProxyError,
  sleep,
  Stats,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { SnapshotSource } from "../../source/mod.ts";
import type { ProxyOptions } from "../command_line/args.ts";
import { createControl } from "../process/control.ts";

/** What the proxy would wait for before it serves without what has not come. */
const ANSWERS_WAIT_MS = 10_000;
const LOOK_MS = 50;

/** Lines for people; throws where nothing would be served, or where a part is refused. */
export async function checkConsul(options: ProxyOptions): Promise<readonly string[]> {
  const stop = new AbortController();
  const log = createLog({ clock: systemClock, write() {}, holder: { level: "error" } });
  // A state that was stored earlier is not what the agent says now.
  const { stateDir: _stateDir, ...asked } = options;
  const control = await createControl({ ...asked, watchPlugins: false }, {
    ...{ clock: systemClock, random: systemRandom, log, stats: new Stats(), env: process.env },
    ...{ engine: runtimeEngine(), signal: stop.signal },
    onWaiting: (reason) => Promise.reject(new ProxyError("agent_unreachable", cannot(reason()))),
  });
  const { source, agent, proxyId } = control;
  try {
    const snapshot = await firstSnapshot(source, systemClock);
    const { refused, warnings } = source;
    const lines = [
      ...options.warnings,
      `${agent?.called ?? "Consul"} answered: ${proxyId}, ${summary(snapshot, refused)}`,
      ...listed(warnings, refused),
    ];
    if (refused.length === 0) return lines;
    throw new ProxyError("config_invalid", lines.join("\n"));
  } finally {
    stop.abort();
    await source.close();
    await agent?.leave?.();
    agent?.close();
  }
}

/** The first one; fails with what keeps it from coming. */
async function firstSnapshot(source: SnapshotSource, clock: Clock): Promise<Snapshot> {
  let snapshot: Snapshot | undefined;
  let fatal: ProxyError | undefined;
  source.start((next) => {
    snapshot = next;
    return Promise.resolve(true);
  }, (error) => fatal = error);
  const deadlineMs = clock.monotonic() + ANSWERS_WAIT_MS;
  for (;;) {
    if (fatal) throw fatal;
    const { waitingFor, pending, failing } = source.status();
    if (snapshot && pending.length === 0) return snapshot;
    const [first] = failing;
    if (clock.monotonic() >= deadlineMs || !snapshot && first) {
      if (snapshot) return snapshot;
      throw new ProxyError(
        first?.code ?? "agent_failed",
        cannot(first?.message ?? `it did not answer about ${waitingFor.join(", ")}`),
      );
    }
    await sleep(clock, LOOK_MS);
  }
}

function cannot(reason: string): string {
  return `Cannot ask Consul about this proxy: ${reason}`;
}

function summary(
  { service, upstreams, edges, policy, credentials }: Snapshot,
  refused: readonly Refusal[],
): string {
  const until = credentials
    ? [`certificate until ${new Date(credentials.notAfterMs).toISOString()}`]
    : [];
  const gateway = Object.keys(edges).length;
  return [
    `service ${service}`,
    ...(gateway > 0 ? [`${gateway} HTTP listeners`] : []),
    upstreamsText(Object.keys(upstreams), refused),
    `${policy.intentions.length} intentions`,
    ...until,
  ].join(", ");
}

function upstreamsText(served: readonly string[], refused: readonly Refusal[]): string {
  const names = new Set(refused.map(({ what }) => what).filter((what) => /^upstream /.test(what)));
  for (const id of served) names.delete(`upstream ${id}`);
  if (names.size === 0) return `${served.length} upstreams`;
  return `${served.length + names.size} upstreams, ${names.size} of them refused`;
}

function listed(warnings: readonly string[], refused: readonly Refusal[]): readonly string[] {
  const things = [
    ...refused.map(({ what, reason }) => `refused: ${what}: ${reason}`),
    ...warnings.map((warning) => `ignored: ${warning}`),
  ];
  if (things.length === 0) {
    return ["Postern does everything that this service's configuration asks"];
  }
  const count = things.length === 1 ? "1 thing" : `${things.length} things`;
  return [
    `this service's configuration asks for ${count} that Postern does not do:`,
    ...things.map((thing) => `  ${thing}`),
  ];
}
