/** The table of facts about the proxy: its place in the mesh, its servers, its version. @module */

import { formatSpanMs } from "../../base/mod.ts";
import type { LoginStatus, ServersStatus } from "../../consul/mod.ts";
import type { stateOf } from "../envoy/server_state.ts";
import type { MergedView } from "../merge.ts";
import { meshLeafText } from "../secrets/certs.ts";
import { declaredUpstreams, type UpstreamTrouble } from "../upstream_troubles.ts";
import type { AdminView } from "../view.ts";

type Facts = readonly (readonly [name: string, value: string])[];

export function factsOf(
  view: AdminView,
  { merged, state, upstreams }: {
    readonly merged: MergedView;
    readonly state: Awaited<ReturnType<typeof stateOf>>;
    readonly upstreams: readonly UpstreamTrouble[];
  },
): Facts {
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
