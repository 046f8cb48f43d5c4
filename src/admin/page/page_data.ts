/** The facts that the page at `/` shows, as plain data: the page itself only lays them out. @module */

import { formatSpanMs } from "../../base/mod.ts";
import type { LoginStatus, ServersStatus } from "../../consul/mod.ts";
import type { ConnectionView, PluginView } from "../../proxy/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { stateOf } from "../envoy/server_state.ts";
import type { MergedView } from "../merge.ts";
import { type CertificateShown, certificatesInUse, meshLeafText } from "../secrets/certs.ts";
import { dateText } from "../secrets/certificate_facts.ts";
import {
  declaredUpstreams,
  troubleTexts,
  type UpstreamTrouble,
  upstreamTroubles,
} from "../upstream_troubles.ts";
import type { AdminView } from "../view.ts";
import { type StateShown, type UpstreamShown, upstreamsShown } from "./upstreams_shown.ts";

export interface PageData {
  readonly atMs: number;
  readonly service: string;
  readonly proxyId: string;
  readonly datacenter: string;
  readonly state: StateShown;
  /** Why it is not ready; empty: it is. */
  readonly reasons: readonly string[];
  /** Each once. */
  readonly troubles: readonly string[];
  readonly facts: readonly (readonly [name: string, value: string])[];
  /** Services with connections to this one, most of them first. */
  readonly callers: Shortened<CallerShown>;
  readonly upstreams: Shortened<UpstreamShown>;
  readonly connections: ConnectionsShown;
  readonly certificates: Shortened<CertificateShown>;
  readonly secrets: Shortened<SecretStatus>;
  /** Listeners that wait for secrets. */
  readonly warming: readonly string[];
  readonly intentions: Shortened<IntentionShown>;
  /** The action without a matching intention; `""`: there is no state yet. */
  readonly defaultAction: string;
  readonly plugins: readonly PluginShown[];
  readonly events: readonly EventRow[];
}

/** Rows that the page shows, and the number of those that it leaves out. */
export interface Shortened<T> {
  readonly rows: readonly T[];
  readonly more: number;
}

export interface CallerShown {
  readonly name: string;
  readonly open: number;
}

interface ConnectionsShown extends Shortened<ConnectionRow> {
  readonly inbound: number;
  readonly outbound: number;
  /** Open requests; `undefined`: no connection carries HTTP. */
  readonly requests: number | undefined;
}

export interface ConnectionRow
  extends Pick<ConnectionView, "id" | "direction" | "endpoint" | "stage" | "ageMs" | "idleMs"> {
  readonly source: string;
  readonly destination: string;
  readonly bytes: number;
  /** `TCP`, `HTTP/2, 3 open`. */
  readonly protocol: string;
}

export interface IntentionShown {
  readonly source: string;
  readonly action: string;
  readonly rule: string;
  readonly precedence: number;
}

export interface PluginShown extends Pick<PluginView, "name" | "listener" | "exchanges"> {
  readonly phase: string;
  readonly failures: number;
  readonly state: StateShown;
  readonly lastFailure: string;
}

export interface EventRow {
  readonly at: string;
  readonly kind: string;
  readonly text: string;
  readonly isTrouble: boolean;
}

const SHOWN = {
  callers: 12,
  connections: 12,
  certificates: 20,
  secrets: 200,
  intentions: 40,
  plugins: 60,
  events: 25,
} as const;

export async function pageData(view: AdminView, merged: MergedView): Promise<PageData> {
  const snapshot = view.snapshot();
  const state = await stateOf(view);
  const broken = upstreamTroubles(view, merged.endpoints);
  const troubles = troublesOf(view, { merged, upstreams: broken, warnings: state.warnings });
  const { upstreams, more } = upstreamsShown(view, {
    endpoints: merged.endpoints,
    connections: merged.connections,
    troubles: broken,
  });
  const { statuses, events } = view.secretsReport();
  return {
    atMs: view.clock.now(),
    service: snapshot?.service ?? "",
    proxyId: snapshot?.proxyId ?? "",
    datacenter: snapshot?.datacenter ?? "",
    state: bannerOf(view, { reasons: state.reasons, troubles }),
    reasons: state.reasons,
    troubles,
    facts: factsOf(view, { merged, state, upstreams: broken }),
    callers: callersShown(merged.connections),
    upstreams: { rows: upstreams, more },
    connections: connectionsShown(merged.connections),
    certificates: firstOf(certificatesInUse(view), SHOWN.certificates),
    secrets: firstOf(statuses.toSorted((a, b) => rank(a) - rank(b)), SHOWN.secrets),
    warming: view.source()?.warming ?? [],
    intentions: intentionsShown(view),
    defaultAction: snapshot?.policy.defaultAction ?? "",
    plugins: merged.plugins.slice(0, SHOWN.plugins).map(pluginShown),
    events: events.slice(-SHOWN.events).reverse().map(({ atMs, kind, name, detail }) => ({
      at: dateText(atMs),
      kind,
      text: `${name} ${detail}`.trim(),
      isTrouble: ["rejected", "unreachable", "timed_out"].includes(kind),
    })),
  };
}

function bannerOf(
  view: AdminView,
  { reasons, troubles }: Pick<PageData, "reasons" | "troubles">,
): StateShown {
  if (view.draining()) return { level: "warn", word: "Draining" };
  if (reasons.length > 0) return { level: "bad", word: "Not ready" };
  return troubles.length > 0
    ? { level: "warn", word: "Ready, with trouble" }
    : { level: "ok", word: "Ready" };
}

/** Reasons against readiness are not among them. */
function troublesOf(
  view: AdminView,
  { merged, upstreams, warnings }: {
    readonly merged: MergedView;
    readonly upstreams: readonly UpstreamTrouble[];
    readonly warnings: readonly string[];
  },
): readonly string[] {
  const failing = view.source()?.failing ?? [];
  return [
    ...new Set([
      ...warnings,
      ...view.refused().map(({ what, reason }) => `${what}: ${reason}`),
      ...troubleTexts(upstreams),
      ...failing.map(({ watch, message }) => `${watch}: ${message}`),
      ...merged.plugins.filter(({ state }) => state === "broken").map(
        ({ name, listener, lastFailure }) =>
          `plugin ${name} of ${listener} is not called for a while: ${lastFailure?.reason ?? ""}`,
      ),
    ]),
  ];
}

function factsOf(
  view: AdminView,
  { merged, state, upstreams }: {
    readonly merged: MergedView;
    readonly state: Awaited<ReturnType<typeof stateOf>>;
    readonly upstreams: readonly UpstreamTrouble[];
  },
): PageData["facts"] {
  const snapshot = view.snapshot();
  const nowMs = view.clock.now();
  const { total, unusable } = state.listeners;
  const { version, commit, engine, platform, pid, workers, startedMs } = view.info;
  const facts: (readonly [string, string])[] = [
    ["state", state.name],
    ["service", snapshot?.service ?? ""],
    ["proxy", snapshot?.proxyId ?? ""],
    ["identity", snapshot?.credentials?.uri ?? ""],
    ["certificate", meshLeafText(snapshot, nowMs)],
    ["Consul server", serverText(view.source()?.servers, nowMs)],
    ["login", loginText(view.source()?.servers?.login, nowMs)],
    ["listeners", unusable === 0 ? `${total}` : `${total}, ${unusable} of them carry no traffic`],
    ["upstreams", upstreamsText(view, upstreams)],
    ["workers", `${merged.workers} of ${Math.max(workers, 1)} answer`],
    ["running for", formatSpanMs(Math.max(0, view.clock.monotonic() - startedMs))],
    ["version", `${version} (${commit}), ${engine}, ${platform}, process ${pid}`],
  ];
  // A proxy without an identity has no certificate either.
  return facts.filter(([, value]) => value !== "");
}

/** `""`: there are none. */
function upstreamsText(view: AdminView, troubles: readonly UpstreamTrouble[]): string {
  const total = declaredUpstreams(view).length;
  if (total === 0) return "";
  const unusable = new Set(troubles.map(({ id }) => id)).size;
  return unusable === 0 ? `${total}` : `${total}, ${unusable} of them not usable`;
}

function serverText(servers: ServersStatus | undefined, nowMs: number): string {
  if (!servers) return "";
  const { server, sinceMs = nowMs, known, moves, lastFailure } = servers;
  const text = `${known.length} known, ${moves} moves`;
  return server === ""
    ? `none in use (${text}): ${lastFailure}`
    : `${server} for ${formatSpanMs(Math.max(0, nowMs - sinceMs))} (${text})`;
}

function loginText(login: LoginStatus | undefined, nowMs: number): string {
  if (!login) return "";
  const { authMethod, accessorId, lastLoginMs, expiresMs, failures, lastFailure } = login;
  const span = (ms: number) => formatSpanMs(Math.max(0, ms));
  const end = expiresMs === undefined ? "" : `, ends in ${span(expiresMs - nowMs)}`;
  const held = lastLoginMs === undefined
    ? `none by ${authMethod} so far`
    : `by ${authMethod} ${span(nowMs - lastLoginMs)} ago, accessor ${accessorId}${end}`;
  return failures === 0 ? held : `${held}; ${failures} failed: ${lastFailure}`;
}

/** Missing and failing secrets come first. */
const ORDER = ["missing", "warming", "active"] as const;

function rank({ state, fault }: SecretStatus): number {
  return ORDER.indexOf(state) + (fault === "" ? ORDER.length : 0);
}

function firstOf<T>(all: readonly T[], limit: number): Shortened<T> {
  return { rows: all.slice(0, limit), more: Math.max(0, all.length - limit) };
}

function connectionsShown(all: readonly ConnectionView[]): ConnectionsShown {
  const inbound = all.filter(({ direction }) => direction === "inbound").length;
  const carriers = all.flatMap(({ http }) => http ?? []);
  const oldest = all.toSorted((a, b) => b.ageMs - a.ageMs);
  const { rows, more } = firstOf(oldest, SHOWN.connections);
  return {
    rows: rows.map((connection) => ({
      id: connection.id,
      direction: connection.direction,
      source: serviceOf(connection.source) || connection.remote,
      destination: serviceOf(connection.destination),
      endpoint: connection.endpoint,
      stage: connection.stage,
      ageMs: connection.ageMs,
      idleMs: connection.idleMs,
      bytes: connection.receivedBytes + connection.sentBytes,
      protocol: connection.http
        ? `${connection.http.version}, ${connection.http.open} open`
        : "TCP",
    })),
    more,
    inbound,
    outbound: all.length - inbound,
    requests: carriers.length === 0 ? undefined : carriers.reduce((sum, { open }) => sum + open, 0),
  };
}

function callersShown(all: readonly ConnectionView[]): Shortened<CallerShown> {
  const inbound = all.filter(({ direction }) => direction === "inbound");
  const groups = Map.groupBy(inbound, ({ source, remote }) => serviceOf(source) || remote);
  const callers = [...groups].map(([name, { length }]) => ({ name, open: length }));
  return firstOf(callers.toSorted((a, b) => b.open - a.open), SHOWN.callers);
}

/** `web` of a SPIFFE URI of Consul; other texts as they are. */
function serviceOf(source: string): string {
  return /^spiffe:\/\/[^/]+\/.*\/svc\/([^/]+)$/.exec(source)?.[1] ?? source;
}

function intentionsShown(view: AdminView): Shortened<IntentionShown> {
  const intentions = view.snapshot()?.policy.intentions ?? [];
  return firstOf(
    intentions.map(({ source, action, permissions = [], rule, precedence }) => ({
      source: source.uri ??
        [source.peer && `peer ${source.peer}`, source.name].filter((part) => part).join(" "),
      action: action === "permissions" ? `${permissions.length} permissions` : action,
      rule,
      precedence,
    })),
    SHOWN.intentions,
  );
}

const PLUGIN_LEVELS = { serving: "ok", draining: "idle", broken: "bad" } as const;

function pluginShown(plugin: PluginView): PluginShown {
  const { name, listener, phase, exchanges, failures, state, lastFailure } = plugin;
  return {
    name,
    listener,
    phase,
    exchanges,
    failures,
    state: { level: PLUGIN_LEVELS[state], word: state },
    lastFailure: lastFailure?.reason ?? "",
  };
}
