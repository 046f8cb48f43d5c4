/**
 * Listeners whose new plugins are refused. Each keeps the plugins that it has, so that the other changes of
 * a snapshot come into force, and its new ones are tried again.
 *
 * @module
 */

import { Backoff, type Clock, type Log, type Random, type ReportEvent } from "../../base/mod.ts";
import type { ListenerRefusal } from "../../plugin/mod.ts";
import {
  type ChainPart,
  type EdgePart,
  type InboundPart,
  type PluginUse,
  type Refusal,
  sameContent,
  type Snapshot,
  type TargetPart,
  upstreamLabel,
  type UpstreamPart,
} from "../../snapshot/mod.ts";

/**
 * The parts of the state in force that a listener keeps. `routes`: also the protocol and the routes, because its
 * plugins do not work with the new ones. `closed`: it has none to keep, and one of the new ones may be a guard.
 */
type Keeps = "plugins" | "routes" | "closed";

/** By listener. */
export type KeptPlugins = ReadonlyMap<string, Keeps>;

const KINDS = ["inbound", "edges", "upstreams"] as const;
type Kind = (typeof KINDS)[number];
type PluginPart = InboundPart | EdgePart | UpstreamPart;

interface Refused {
  readonly keeps: Keeps;
  readonly reason: string;
  /** Other text: it may not be refused any more. */
  readonly sign: string;
  readonly tries: Backoff;
  /** Monotonic time of the next try. */
  dueMs: number;
}

/** Pauses between tries of what was refused because of plugins. */
export const PLUGIN_RETRY = { baseMs: 1_000, maxMs: 60_000 };

interface RefusedPluginsOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly report?: ReportEvent | undefined;
}

export class RefusedPlugins {
  readonly #options: RefusedPluginsOptions;
  readonly #refused = new Map<string, Refused>();
  #list: readonly Refusal[] = [];

  constructor(options: RefusedPluginsOptions) {
    this.#options = options;
  }

  get list(): readonly Refusal[] {
    return this.#list;
  }

  /** Monotonic time of the next try; `Infinity`: none is due. */
  get dueMs(): number {
    return Math.min(...[...this.#refused.values()].map(({ dueMs }) => dueMs));
  }

  /** The next decision tries all of them. */
  setDue(): void {
    for (const refused of this.#refused.values()) refused.dueMs = -Infinity;
  }

  /** The snapshot was refused whole: those that are due wait again. */
  postpone(): void {
    const nowMs = this.#options.clock.monotonic();
    for (const refused of this.#refused.values()) {
      if (refused.dueMs <= nowMs) refused.dueMs = nowMs + refused.tries.next();
    }
  }

  /** Listeners whose plugins were refused before, and need not be tried with this snapshot. */
  known(wanted: Snapshot): KeptPlugins {
    const nowMs = this.#options.clock.monotonic();
    return new Map(
      [...this.#refused].flatMap(([listener, { keeps, sign, dueMs }]) =>
        dueMs > nowMs && signOf(wanted, listener) === sign ? [[listener, keeps]] : []
      ),
    );
  }

  /** Called when `wanted` is in force, except for what listeners keep. `fresh`: refusals of this decision. */
  decided(wanted: Snapshot, kept: KeptPlugins, fresh: readonly ListenerRefusal[]): void {
    for (const [listener, { tries }] of this.#refused) {
      if (kept.has(listener)) continue;
      this.#refused.delete(listener);
      if (kindOf(wanted, listener)) this.#taken(listener, tries.failures);
    }
    for (const [listener, keeps] of kept) {
      const refusal = fresh.find((one) => one.listener === listener);
      if (refusal) this.#add(wanted, { ...refusal, keeps });
    }
    this.#list = [...this.#refused].map(([listener, { keeps, reason }]) => {
      const upstream = wanted.upstreams[listener];
      const what = `plugins of ${upstream ? upstreamLabel(upstream) : listener}`;
      if (!upstream || keeps !== "closed") return { what, reason };
      const { id, name, bind } = upstream;
      return { what, reason, upstream: { id, name, bind } };
    });
  }

  #add(
    wanted: Snapshot,
    { listener, reason, isHeld, keeps }: ListenerRefusal & { readonly keeps: Keeps },
  ): void {
    const { clock, random, log, report } = this.#options;
    const sign = signOf(wanted, listener);
    const before = this.#refused.get(listener);
    const tries = before?.sign === sign ? before.tries : new Backoff({ ...PLUGIN_RETRY, random });
    const delayMs = tries.next();
    // A plugin that blocks its thread costs all connections of a data worker.
    const dueMs = isHeld ? Infinity : clock.monotonic() + delayMs;
    this.#refused.set(listener, { keeps, reason, sign, tries, dueMs });
    if (before?.reason === reason && before.keeps === keeps) return;
    const fact = keeps === "closed" ? "the listener stays closed" : "the last good ones serve on";
    log.error(`plugins refused, ${fact}`, { listener, version: wanted.version, reason });
    report?.({
      kind: "plugin",
      subject: listener,
      text: `plugins refused, ${fact}: ${reason}`,
      severity: "error",
      isLogged: true,
    });
  }

  #taken(listener: string, refusals: number): void {
    const { log, report } = this.#options;
    const text = "plugins not refused any more";
    log.info(text, { listener, refusals });
    report?.({ kind: "plugin", subject: listener, text, isLogged: true });
  }
}

/** `kept` with the parts that these refusals add; `undefined`: keeping plugins does not help. */
export function keepMore(
  kept: KeptPlugins,
  refusals: readonly ListenerRefusal[],
  { wanted, published }: { readonly wanted: Snapshot; readonly published: Snapshot | undefined },
): KeptPlugins | undefined {
  const more = new Map(kept);
  for (const { listener } of refusals) {
    const kind = kindOf(wanted, listener);
    const now = kept.get(listener);
    if (!kind || now === "closed" || now === "routes") return undefined;
    if (!published?.[kind][listener]) more.set(listener, "closed");
    else more.set(listener, now ? "routes" : "plugins");
  }
  return more;
}

/** `wanted` with what listeners keep of `published`. */
export function keepPlugins(
  wanted: Snapshot,
  published: Snapshot | undefined,
  kept: KeptPlugins,
): Snapshot {
  if (kept.size === 0) return wanted;
  // No other part of this kind has such a version.
  const version = -wanted.version;
  const inbound: Record<string, InboundPart> = { ...wanted.inbound };
  const edges: Record<string, EdgePart> = { ...wanted.edges };
  const upstreams: Record<string, UpstreamPart> = { ...wanted.upstreams };
  const chains: Record<string, ChainPart> = { ...wanted.chains };
  const targets: Record<string, TargetPart> = { ...wanted.targets };
  for (const [listener, keeps] of kept) {
    const before =
      { ...published?.inbound, ...published?.edges, ...published?.upstreams }[listener];
    const keep = <T extends PluginPart>(parts: Record<string, T>, own?: Partial<T>) => {
      const part = parts[listener];
      if (!part) return;
      if (keeps === "closed" || !before) {
        delete parts[listener];
        return;
      }
      const old = before as T;
      const http = keeps === "routes" ? { http: old.http } : {};
      const next: T = { ...part, plugins: old.plugins, ...http, ...own, version: old.version };
      parts[listener] = sameContent(old, next) ? old : { ...next, version };
    };
    keep(inbound);
    keep(edges);
    const chain = keeps === "routes" ? published?.upstreams[listener]?.chain : undefined;
    const routes = chain === undefined ? undefined : published?.chains[chain];
    if (!routes) {
      keep(upstreams);
      continue;
    }
    // Other upstreams of the service have the new routes.
    const key = `${listener} (kept)`;
    chains[key] = routes;
    for (const { targets: keys } of Object.values(routes.resolvers)) {
      for (const target of keys) {
        const part = published?.targets[target];
        if (part) targets[target] ??= part;
      }
    }
    keep(upstreams, { chain: key });
  }
  const parts = { inbound, edges, upstreams };
  return { ...wanted, ...parts, chains, targets, pluginCode: codeOf(parts, wanted, published) };
}

/** The code of all plugins in use. */
function codeOf(
  parts: Pick<Snapshot, Kind>,
  wanted: Snapshot,
  published: Snapshot | undefined,
): Snapshot["pluginCode"] {
  const all: readonly { readonly plugins: readonly PluginUse[] }[] = KINDS.flatMap((kind) =>
    Object.values(parts[kind])
  );
  const used = new Set(all.flatMap(({ plugins }) => plugins.map(({ file }) => file?.code)));
  const code = { ...published?.pluginCode, ...wanted.pluginCode };
  return Object.fromEntries(Object.entries(code).filter(([key]) => used.has(key)));
}

function kindOf(snapshot: Snapshot, listener: string): Kind | undefined {
  return KINDS.find((kind) => snapshot[kind][listener] !== undefined);
}

/** The same as long as the plugins, and all that they can be refused for, are. */
function signOf(wanted: Snapshot, listener: string): string {
  const { upstreams, chains } = wanted;
  const kind = kindOf(wanted, listener);
  const part = kind && wanted[kind][listener];
  const chain = chains[upstreams[listener]?.chain ?? ""];
  // Plugins call upstreams by name.
  return JSON.stringify([part?.version, chain?.version, Object.keys(upstreams)]);
}
