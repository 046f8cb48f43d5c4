/** The facts that the page at `/` shows, as plain data: the page itself only lays them out. @module */

import type { ConnectionView, PluginView, RefusalView, SlowRequestView } from "../../proxy/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { stateOf } from "../envoy/server_state.ts";
import { eventText } from "../events_page.ts";
import type { MergedView } from "../merge.ts";
import { type CertificateShown, certificatesInUse } from "../secrets/certs.ts";
import { dateText } from "../secrets/certificate_facts.ts";
import {
  refusingTexts,
  troubleTexts,
  type UpstreamTrouble,
  upstreamTroubles,
} from "../upstream_troubles.ts";
import type { AdminView, PeerProxy } from "../view.ts";
import { factsOf } from "./facts.ts";
import { type IntentionShown, intentionsShown } from "./intentions_shown.ts";
import { flowKey, type FlowShown, NO_FLOW, type TrafficShown } from "./traffic_history.ts";
import { bytesText, countText } from "./texts.ts";
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
  /** Other proxies of this machine. */
  readonly peers: readonly PeerProxy[];
  readonly facts: readonly (readonly [name: string, value: string])[];
  readonly traffic: TrafficShown;
  /** Services that call this one, the busiest first. */
  readonly callers: Shortened<CallerShown>;
  readonly upstreams: Shortened<UpstreamShown>;
  /** Newest first. */
  readonly refusals: Shortened<RefusalView>;
  /** Slowest first. */
  readonly slow: Shortened<SlowRequestView>;
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
  /** Number of the last event; 0: there is none. */
  readonly lastEvent: number;
}

/** Rows that the page shows, and the number of those that it leaves out. */
export interface Shortened<T> {
  readonly rows: readonly T[];
  readonly more: number;
}

export interface CallerShown {
  readonly name: string;
  /** Open connections. */
  readonly open: number;
  readonly flow: FlowShown;
}

interface ConnectionsShown extends Shortened<ConnectionRow> {
  readonly inbound: number;
  readonly outbound: number;
  /** Open requests; `undefined`: no connection carries HTTP. */
  readonly requests: number | undefined;
}

export interface ConnectionRow
  extends Pick<ConnectionView, "id" | "endpoint" | "stage" | "ageMs" | "idleMs"> {
  readonly source: string;
  readonly destination: string;
  /** `TCP, 1.2 MB`, `HTTP/2, 310 requests, 3 open`. */
  readonly carries: string;
}

export interface PluginShown extends Pick<PluginView, "name" | "listener" | "exchanges"> {
  readonly phase: string;
  /** `consul-kv:plugins/shop, sha256 0123456789ab`. */
  readonly origin: string;
  readonly failures: number;
  readonly state: StateShown;
  readonly lastFailure: string;
}

export interface EventRow {
  readonly seq: number;
  readonly at: string;
  readonly kind: string;
  readonly text: string;
  readonly isTrouble: boolean;
}

const SHOWN = {
  callers: 12,
  refusals: 12,
  slow: 8,
  connections: 12,
  certificates: 20,
  secrets: 200,
  intentions: 40,
  plugins: 60,
  events: 25,
} as const;

export async function pageData(
  view: AdminView,
  merged: MergedView,
  traffic: TrafficShown,
): Promise<PageData> {
  const snapshot = view.snapshot();
  const state = await stateOf(view);
  const broken = upstreamTroubles(view, merged.endpoints);
  const troubles = troublesOf(view, { merged, upstreams: broken, warnings: state.warnings });
  const { upstreams, more } = upstreamsShown(view, {
    endpoints: merged.endpoints,
    connections: merged.connections,
    traffic,
    troubles: broken,
    refusing: merged.refusing,
  });
  const { statuses } = view.secretsReport();
  const { events, isPending } = view.events();
  return {
    atMs: view.clock.now(),
    service: snapshot?.service ?? "",
    proxyId: snapshot?.proxyId ?? "",
    datacenter: snapshot?.datacenter ?? "",
    state: bannerOf(view, { reasons: state.reasons, troubles }),
    reasons: state.reasons,
    troubles,
    peers: await view.peers(),
    facts: factsOf(view, { merged, state, upstreams: broken }),
    traffic,
    callers: callersShown(merged.connections, traffic),
    upstreams: { rows: upstreams, more },
    connections: connectionsShown(merged.connections),
    certificates: firstOf(certificatesInUse(view), SHOWN.certificates),
    secrets: firstOf(statuses.toSorted((a, b) => rank(a) - rank(b)), SHOWN.secrets),
    warming: view.source()?.warming ?? [],
    refusals: firstOf(merged.traffic.refusals, SHOWN.refusals),
    slow: firstOf(merged.traffic.slow, SHOWN.slow),
    intentions: firstOf(intentionsShown(view, merged.traffic), SHOWN.intentions),
    defaultAction: snapshot?.policy.defaultAction ?? "",
    plugins: merged.plugins.slice(0, SHOWN.plugins).map(pluginShown),
    lastEvent: events.at(-1)?.seq ?? 0,
    events: events.slice(-SHOWN.events).reverse().map((event) => ({
      seq: event.seq,
      at: dateText(event.atMs),
      kind: event.kind,
      text: eventText({ ...event, pending: isPending(event.seq) }),
      isTrouble: event.severity !== "info",
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
      ...refusingTexts(merged.refusing, merged.endpoints),
      ...failing.map(({ watch, message }) => `${watch}: ${message}`),
      ...merged.plugins.filter(({ state }) => state === "broken").map(
        ({ name, listener, lastFailure }) =>
          `plugin ${name} of ${listener} is not called for a while: ${lastFailure?.reason ?? ""}`,
      ),
    ]),
  ];
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
      source: serviceOf(connection.source) || connection.remote,
      destination: serviceOf(connection.destination),
      endpoint: connection.endpoint,
      stage: connection.stage,
      ageMs: connection.ageMs,
      idleMs: connection.idleMs,
      carries: carriesText(connection),
    })),
    more,
    inbound,
    outbound: all.length - inbound,
    requests: carriers.length === 0 ? undefined : carriers.reduce((sum, { open }) => sum + open, 0),
  };
}

function carriesText({ http, receivedBytes, sentBytes }: ConnectionView): string {
  if (!http) return `TCP, ${bytesText(receivedBytes + sentBytes)}`;
  const requests = `${countText(http.total)} request${http.total === 1 ? "" : "s"}`;
  return `${http.version}, ${requests}${http.open === 0 ? "" : `, ${http.open} open`}`;
}

/** Those with open connections, and those with traffic since the start. */
function callersShown(
  all: readonly ConnectionView[],
  { flows }: TrafficShown,
): Shortened<CallerShown> {
  const inbound = all.filter(({ direction }) => direction === "inbound");
  const open = Map.groupBy(inbound, ({ source, remote }) => serviceOf(source) || remote);
  const prefix = flowKey("caller", "");
  const counted = [...flows.keys()].flatMap((key) =>
    key.startsWith(prefix) ? [key.slice(prefix.length)] : []
  );
  const callers = [...new Set([...counted, ...open.keys()])].map((name) => ({
    name,
    open: open.get(name)?.length ?? 0,
    flow: flows.get(flowKey("caller", name)) ?? NO_FLOW,
  }));
  // By totals, so that places do not change with every reading.
  const sorted = callers.toSorted((a, b) => b.flow.requests - a.flow.requests || b.open - a.open);
  return firstOf(sorted, SHOWN.callers);
}

/** `web` of a SPIFFE URI of Consul; other texts as they are. */
function serviceOf(source: string): string {
  return /^spiffe:\/\/[^/]+\/.*\/svc\/([^/]+)$/.exec(source)?.[1] ?? source;
}

const PLUGIN_LEVELS = { serving: "ok", draining: "idle", broken: "bad", unused: "idle" } as const;

function pluginShown(plugin: PluginView): PluginShown {
  const { name, listener, phase, exchanges, failures, state, lastFailure } = plugin;
  const { use = "", source = "", sha256 } = plugin;
  return {
    name,
    listener,
    phase,
    origin: sha256 ? `${use}, sha256 ${sha256.slice(0, 12)}` : source,
    exchanges,
    failures,
    state: { level: PLUGIN_LEVELS[state], word: state },
    lastFailure: lastFailure?.reason ?? "",
  };
}
