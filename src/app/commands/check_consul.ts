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
import { loadBuiltIn } from "../../built_in/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { isForRequests, whyNotUsable } from "../../plugin/mod.ts";
import {
  localAddressOf,
  type PluginUse,
  type Refusal,
  type Snapshot,
  upstreamLabel,
} from "../../snapshot/mod.ts";
import type { SnapshotSource } from "../../source/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { type ControlDeps, createControl, type ProxyControl } from "../process/control.ts";

/** A proxy waits as long before it serves without parts that Consul has not answered. */
const ANSWERS_WAIT_MS = 10_000;
const LOOK_MS = 50;

/** The lines of `check`, and the facts behind its exit code. */
export interface CheckReport {
  readonly lines: readonly string[];
  readonly hasRefusals: boolean;
  /** A part is ignored, or there is a warning. */
  readonly hasWarnings: boolean;
}

/** Throws where no snapshot could be served. */
export function checkConsul(options: ProxyOptions): Promise<CheckReport> {
  return withControl(options, async ({ source, agent, proxyId }, first) => {
    const snapshot = await first();
    const warnings = [...source.warnings, ...unusedPlugins(snapshot)];
    const faults = await pluginFaults(snapshot);
    const refused = [...source.refused, ...faults.map((reason) => ({ what: "plugins", reason }))];
    return {
      lines: [
        ...options.warnings,
        `${agent?.called ?? "Consul"} answered: ${proxyId}, ${summary(snapshot, refused)}`,
        ...listed(warnings, refused),
      ],
      hasRefusals: refused.length > 0,
      hasWarnings: options.warnings.length + warnings.length > 0,
    };
  });
}

/** Why plugins of listeners cannot be used. Loads them and creates none: creation may have effects. */
export async function pluginFaults(
  { inbound, upstreams, edges, pluginCode }: Pick<
    Snapshot,
    "inbound" | "upstreams" | "edges" | "pluginCode"
  >,
): Promise<readonly string[]> {
  const uses = [inbound, upstreams, edges].flatMap((listeners) =>
    Object.values<ListWithPlugins>(listeners).flatMap(({ plugins }) => plugins)
  );
  const faults = await Promise.all(
    uses.map((use) => whyNotUsable(use, { pluginCode, load: loadBuiltIn, clock: systemClock })),
  );
  const useless = idlePlugins({ inbound, upstreams, pluginCode })
    .flatMap(({ use: { at, plugin, isForAll }, listener }) =>
      isForAll ? [] : [`${at}: ${plugin} looks at requests, and ${listener} carries bytes`]
    );
  // A list for all upstreams is a part of each.
  return [...new Set([...faults.filter((fault) => fault !== undefined), ...useless])];
}

/** Plugins for requests that a list for all proxies names, and that are not called here. */
export function unusedPlugins(
  snapshot: Pick<Snapshot, "inbound" | "upstreams" | "pluginCode">,
): readonly string[] {
  return idlePlugins(snapshot).flatMap(({ use: { at, plugin, isForAll }, listener }) =>
    isForAll ? [`${at}: ${plugin} looks at requests, which ${listener} does not carry`] : []
  );
}

interface ListWithPlugins {
  readonly plugins: readonly PluginUse[];
}

/** Plugins for requests at listeners that carry bytes. */
function idlePlugins(
  { inbound, upstreams, pluginCode }: Pick<Snapshot, "inbound" | "upstreams" | "pluginCode">,
): readonly { readonly use: PluginUse; readonly listener: string }[] {
  const lists = [
    ...Object.entries(inbound).map(([name, part]) => ({ listener: `listener ${name}`, part })),
    ...Object.values(upstreams)
      .map((part) => ({ listener: `upstream ${upstreamLabel(part)}`, part })),
  ];
  return lists.filter(({ part }) => part.http === null).flatMap(({ listener, part }) =>
    part.plugins.filter((use) => isForRequests(use, { pluginCode }))
      .map((use) => ({ use, listener }))
  );
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
    onWaiting: (reason) => Promise.reject(new ProxyError("agent_unreachable", cannotAsk(reason()))),
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
    return Promise.resolve(next);
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
        cannotAsk(first?.message ?? `it did not answer about ${waitingFor.join(", ")}`),
      );
    }
    await sleep(systemClock, LOOK_MS);
  }
}

const CANNOT = "Cannot ask Consul about this proxy: ";

/** `reason` may quote an earlier attempt, whose own reason says it all. */
export function cannotAsk(reason: string): string {
  return CANNOT + (reason.split(CANNOT).at(-1) ?? "");
}

/** The number of things that the snapshot has. */
export function summary(
  { service, upstreams, edges, policy, credentials }: Snapshot,
  refused: readonly Refusal[],
): string {
  const gateway = Object.keys(edges).length;
  const lacking = refused.filter(({ upstream }) => upstream).length;
  const total = counted(Object.keys(upstreams).length + lacking, "upstream");
  return [
    `service ${service}`,
    gateway > 0 && counted(gateway, "HTTP listener"),
    lacking === 0 ? total : `${total}, ${lacking} of them refused`,
    counted(policy.intentions.length, "intention"),
    credentials && `certificate until ${new Date(credentials.notAfterMs).toISOString()}`,
  ].filter(Boolean).join(", ");
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function refusalText({ what, reason, upstream }: Refusal): string {
  const address = upstream && localAddressOf(upstream);
  return `refused: ${what}: ${reason}${address ? `; nothing listens on ${address}` : ""}`;
}

/** Lines that say what Postern does not do. */
export function listed(
  warnings: readonly string[],
  refused: readonly Refusal[],
): readonly string[] {
  const things = [
    ...refused.map(refusalText),
    ...warnings.map((warning) => `ignored: ${warning.replace(/, which is ignored(?=:|$)/, "")}`),
  ];
  if (things.length === 0) {
    return ["Postern does everything that this service's configuration asks"];
  }
  return [
    `this service's configuration asks for ${
      counted(things.length, "thing")
    } that Postern does not do:`,
    ...things.map((thing) => `  ${thing}`),
  ];
}
