/** `/ready` and `/server_info`: the state of the proxy with Envoy's names, and the reasons. @module */

import type { Sample } from "../../base/mod.ts";
import type { AdminView, Health } from "../view.ts";
import type { Json } from "./listeners.ts";
import { mergeEndpoints, mergeRefusing } from "../merge.ts";
import { lines } from "../redact.ts";
import {
  pastFailureTexts,
  refusingTexts,
  troubleTexts,
  upstreamTroubles,
} from "../upstream_troubles.ts";

export async function serverInfo(view: AdminView): Promise<Json> {
  const { version, commit, engine, platform, pid, workers, startedMs, limits, options, upgrade } =
    view.info;
  const { name, reasons, warnings, listeners } = await stateOf(view);
  const snapshot = view.snapshot();
  const [, trustDomain = ""] = /^spiffe:\/\/([^/]+)/.exec(snapshot?.credentials?.uri ?? "") ?? [];
  const uptime = `${Math.floor((view.clock.monotonic() - startedMs) / 1_000)}s`;
  return {
    // The form of Envoy's.
    version: `${commit}/${version}/Clean/RELEASE/postern`,
    state: name,
    uptime_current_epoch: uptime,
    uptime_all_epochs: uptime,
    hot_restart_version: "disabled",
    command_line_options: { concurrency: workers, log_level: view.logLevel() },
    node: { id: snapshot?.proxyId ?? "", cluster: snapshot?.service ?? "" },
    postern: {
      version,
      commit,
      engine,
      platform,
      pid,
      workers,
      options,
      trust_domain: trustDomain,
      identity: snapshot?.credentials?.uri ?? "",
      not_ready: reasons,
      warnings,
      listeners,
      ...(upgrade && { upgrade }),
      limits: { open_files: limits.openFiles ?? "none", max_connections: limits.maxConnections },
    },
  };
}

interface AdminState extends Omit<Health, "notReady"> {
  /** As in Envoy's `/server_info`. */
  readonly name: "LIVE" | "DRAINING" | "PRE_INITIALIZING" | "INITIALIZING";
  /** Empty: ready. */
  readonly reasons: readonly string[];
}

export async function stateOf(view: AdminView): Promise<AdminState> {
  const { notReady, ...rest } = await view.health();
  if (view.draining()) {
    return { ...rest, name: "DRAINING", reasons: ["draining: no new connections"] };
  }
  if (notReady.length === 0) return { ...rest, name: "LIVE", reasons: [] };
  const name = view.snapshot() ? "INITIALIZING" : "PRE_INITIALIZING";
  return { ...rest, name, reasons: notReady };
}

/** Envoy's numbers of its states, in their order. */
const STATES: readonly AdminState["name"][] = [
  "LIVE",
  "DRAINING",
  "PRE_INITIALIZING",
  "INITIALIZING",
];

/** `answered`: the number of data paths that did. */
export async function stateSamples(view: AdminView, answered: number): Promise<readonly Sample[]> {
  const { name } = await stateOf(view);
  const connected = isConsulConnected(view);
  const gauge = (name: string, help: string, value: number): Sample => {
    return { name, kind: "gauge", help, labels: {}, value };
  };
  return [
    gauge(
      "state",
      "0: ready, 1: draining, 2: waits for its first configuration, 3: not ready, as /ready says",
      STATES.indexOf(name),
    ),
    // With -workers 0 the main thread has the data path.
    gauge("workers", "Data workers that should run", Math.max(view.info.workers, 1)),
    gauge("workers_answering", "Data workers whose values are in this answer", answered),
    ...connected === undefined ? [] : [
      gauge(
        "consul_connected",
        "1 while the agent or a server answers, else 0",
        connected ? 1 : 0,
      ),
    ],
  ];
}

/** `undefined`: there is no Consul, or it was not reached yet. */
function isConsulConnected(view: AdminView): boolean | undefined {
  const source = view.source();
  if (source?.kind !== "consul") return undefined;
  return source.servers
    ? source.servers.server !== ""
    : !source.failing.some(({ code }) => code === "agent_unreachable");
}

/** A fault that does not make the proxy unready. */
interface Trouble {
  readonly text: string;
  /** A part of the traffic fails. */
  readonly stopsTraffic: boolean;
}

/** `/ready?format=postern`: what `postern status` shows. */
export async function readyFacts(view: AdminView): Promise<{
  readonly state: AdminState["name"];
  readonly reasons: readonly string[];
  readonly troubles: readonly Trouble[];
}> {
  const [{ name, reasons, warnings, failing }, endpoints] = await Promise.all([
    stateOf(view),
    view.endpoints(),
  ]);
  const stopping = new Set([...failing, ...brokenTexts(view, endpoints)]);
  const refusing = refusingTexts(mergeRefusing(endpoints), mergeEndpoints(endpoints));
  const past = pastFailureTexts(view.snapshot(), mergeEndpoints(endpoints));
  const texts = new Set([...warnings, ...stopping, ...refusing, ...past]);
  const troubles = [...texts].filter((text) => !reasons.includes(text))
    .map((text) => ({ text, stopsTraffic: stopping.has(text) }));
  return { state: name, reasons, troubles };
}

/** Refused configuration, and upstreams that cannot be used. */
function brokenTexts(
  view: AdminView,
  endpoints: Awaited<ReturnType<AdminView["endpoints"]>>,
): readonly string[] {
  const refused = view.refused().map(({ what, reason }) => `${what}: ${reason}`);
  return [...refused, ...troubleTexts(upstreamTroubles(view, mergeEndpoints(endpoints)))];
}

/** The catalog and the upstreams count only where `want` names them and the proxy itself is ready. */
export async function readyPage(
  view: AdminView,
  want: { readonly catalog: boolean; readonly upstreams: boolean },
): Promise<{ readonly status: 200 | 400 | 503; readonly body: string }> {
  const [state, endpoints] = await Promise.all([stateOf(view), view.endpoints()]);
  const upstreams = troubleTexts(upstreamTroubles(view, mergeEndpoints(endpoints)));
  const refusing = refusingTexts(mergeRefusing(endpoints), mergeEndpoints(endpoints));
  const refused = view.refused().map(({ what, reason }) => `${what}: ${reason}`);
  let name: string = state.name;
  let { reasons } = state;
  if (want.catalog && reasons.length === 0) {
    const catalog = await view.catalog();
    if (catalog.kind === "unsupported") {
      return { status: 400, body: `Cannot look into the catalog: ${catalog.reason}\n` };
    }
    if (catalog.failing.length > 0) [name, reasons] = ["NOT_PASSING", catalog.failing];
  }
  if (want.upstreams && reasons.length === 0 && upstreams.length > 0) {
    [name, reasons] = ["UPSTREAMS_NOT_USABLE", upstreams];
  }
  const warnings = [...new Set([...state.warnings, ...refused, ...upstreams, ...refusing])]
    .filter((line) => !reasons.includes(line)).map((line) => `warning: ${line}`);
  return { status: reasons.length === 0 ? 200 : 503, body: lines([name, ...reasons, ...warnings]) };
}
