/** `postern check` of a proxy in Consul. Fetches its certificate, too; registers nothing. @module */

import process from "node:process";
import {
  createLog,
  type LogLevel,
  type LogRecord,
  ProxyError,
  sleep,
  Stats,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { localAddressOf, type Refusal, type Snapshot } from "../../snapshot/mod.ts";
import type { SnapshotSource } from "../../source/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { type ControlDeps, createControl, type ProxyControl } from "../process/control.ts";

/** A proxy waits as long before it serves without parts that Consul has not answered. */
const ANSWERS_WAIT_MS = 10_000;
const LOOK_MS = 50;

interface ConsulReport {
  readonly lines: readonly string[];
  readonly hasRefusals: boolean;
}

/** Throws where no snapshot could be served. */
export function checkConsul(options: ProxyOptions): Promise<ConsulReport> {
  return withControl(options, async ({ source, agent, proxyId }, first) => {
    const snapshot = await first();
    const { refused, warnings } = source;
    return {
      lines: [
        ...options.warnings,
        `${agent?.called ?? "Consul"} answered: ${proxyId}, ${summary(snapshot, refused)}`,
        ...listed(warnings, refused),
      ],
      hasRefusals: refused.length > 0,
    };
  });
}

/** Calls `look` with the source of a proxy that does not serve, then ends it. `first`: its first snapshot. */
export async function withControl<T>(
  options: ProxyOptions,
  look: (control: ProxyControl, first: () => Promise<Snapshot>) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  // A state that was stored earlier is not what the agent says now.
  const { stateDir: _stateDir, ...withoutState } = options;
  const control = await createControl({ ...withoutState, watchPlugins: false }, {
    ...checkDeps("error", () => {}),
    signal: stop.signal,
    onWaiting: (reason) => Promise.reject(new ProxyError("agent_unreachable", cannot(reason()))),
  });
  const { source, agent } = control;
  try {
    return await look(control, () => firstSnapshot(source));
  } finally {
    stop.abort();
    await source.close();
    await agent?.leave?.();
    agent?.close();
  }
}

/** The surroundings of a source whose proxy does not run; `write` takes log lines from `level` on. */
export function checkDeps(
  level: LogLevel,
  write: (record: LogRecord) => void,
): Omit<ControlDeps, "signal" | "onWaiting"> {
  return {
    clock: systemClock,
    random: systemRandom,
    log: createLog({ clock: systemClock, write, holder: { level } }),
    stats: new Stats(),
    env: process.env,
    engine: runtimeEngine(),
  };
}

/** The first snapshot; rejects with the reason why there is none. */
async function firstSnapshot(source: SnapshotSource): Promise<Snapshot> {
  let snapshot: Snapshot | undefined;
  let fatal: ProxyError | undefined;
  source.start((next) => {
    snapshot = next;
    return Promise.resolve(true);
  }, (error) => fatal = error);
  const deadlineMs = systemClock.monotonic() + ANSWERS_WAIT_MS;
  for (;;) {
    if (fatal) throw fatal;
    const { waitingFor, pending, failing } = source.status();
    if (snapshot && pending.length === 0) return snapshot;
    const [first] = failing;
    if (systemClock.monotonic() >= deadlineMs || !snapshot && first) {
      if (snapshot) return snapshot;
      throw new ProxyError(
        first?.code ?? "agent_failed",
        cannot(first?.message ?? `it did not answer about ${waitingFor.join(", ")}`),
      );
    }
    await sleep(systemClock, LOOK_MS);
  }
}

function cannot(reason: string): string {
  return `Cannot ask Consul about this proxy: ${reason}`;
}

/** The number of things that the snapshot has. */
export function summary(
  { service, upstreams, edges, policy, credentials }: Snapshot,
  refused: readonly Refusal[],
): string {
  const gateway = Object.keys(edges).length;
  const lacking = refused.filter(({ upstream }) => upstream).length;
  const total = `${Object.keys(upstreams).length + lacking} upstreams`;
  return [
    `service ${service}`,
    gateway > 0 && `${gateway} HTTP listeners`,
    lacking === 0 ? total : `${total}, ${lacking} of them refused`,
    `${policy.intentions.length} intentions`,
    credentials && `certificate until ${new Date(credentials.notAfterMs).toISOString()}`,
  ].filter(Boolean).join(", ");
}

function refusalText({ what, reason, upstream }: Refusal): string {
  const address = upstream && localAddressOf(upstream);
  return `refused: ${what}: ${reason}${address ? `; nothing listens on ${address}` : ""}`;
}

function listed(warnings: readonly string[], refused: readonly Refusal[]): readonly string[] {
  const things = [
    ...refused.map(refusalText),
    ...warnings.map((warning) => warning.includes(" is ignored") ? warning : `ignored: ${warning}`),
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
