/** The page at `/`: the state and the other pages. Plain HTML that loads nothing else. @module */

import { html } from "hono/html";
import { formatSpanMs } from "../base/mod.ts";
import type { LoginStatus, ServersStatus } from "../consul/mod.ts";
import type { MergedView } from "./merge.ts";
import { meshLeafText } from "./secrets/certs.ts";
import { stateOf } from "./envoy/server_state.ts";
import {
  declaredUpstreams,
  troubleTexts,
  type UpstreamTrouble,
  upstreamTroubles,
} from "./upstream_troubles.ts";
import type { AdminView } from "./view.ts";
import type { SecretStatus } from "../secrets/mod.ts";
import { dateText, isNearExpiry, timeLeft } from "./secrets/certificate_facts.ts";

/** Path and purpose; the method where it is not GET. */
export const PATHS: readonly (readonly [string, string, ("POST")?])[] = [
  ["/ready", "200 when traffic can be carried, else 503 with the reasons"],
  ["/live", "200 while the process answers"],
  [
    "/stats",
    "counters, under Envoy's names, too; ?filter=REGEX of a line's name and labels, ?type=Counters, " +
    "?usedonly, ?format=json, prometheus or postern",
  ],
  ["/stats/prometheus", "the same for Prometheus"],
  ["/certs", "every certificate and CA in use, how long they are valid, and who uses them"],
  ["/events", "what happened to secrets, newest first; ?limit=N, ?format=text"],
  ["/clusters", "endpoints of every cluster; ?format=json as Envoy has it, or postern"],
  [
    "/listeners",
    "listeners, those that wait for secrets too; ?format=json as Envoy has it, or postern",
  ],
  [
    "/traffic",
    "requests, errors, latency and bytes by caller, upstream, endpoint and route; the last refusals " +
    "and the slowest requests",
  ],
  ["/connections", "open connections, and their requests; ?limit=N, ?listener=NAME"],
  [
    "/explain",
    "what would happen to a request; ?upstream=NAME or ?source=SERVICE, ?method=, ?path=, " +
    "?header=NAME:VALUE, ?format=text",
  ],
  ["/plugins", "plugins of every listener: generation, state, exchanges, failures"],
  ["/plugins/reload", "read files again, all or nothing, as SIGHUP does", "POST"],
  ["/config_dump", "the state in force, without keys"],
  ["/server_info", "version, state, options"],
  ["/logging", "log level; POST with ?level=debug changes it"],
  ["/reset_counters", "show counters from zero again", "POST"],
  ["/drain_listeners", "stop accepting connections", "POST"],
  ["/quitquitquit", "drain and end", "POST"],
];

type Html = ReturnType<typeof html>;

export async function homePage(view: AdminView, merged: MergedView): Promise<Html> {
  const snapshot = view.snapshot();
  const { name, reasons, warnings, listeners: { total, unusable } } = await stateOf(view);
  const failing = view.source()?.failing ?? [];
  const upstreams = upstreamTroubles(view, merged.endpoints);
  const rows: [string, string][] = [
    ["state", name],
    ["service", snapshot?.service ?? ""],
    ["proxy", snapshot?.proxyId ?? ""],
    ["identity", snapshot?.credentials?.uri ?? ""],
    ["certificate", meshLeafText(snapshot, view.clock.now())],
    ["Consul server", serverText(view.source()?.servers, view.clock.now())],
    ["login", loginText(view.source()?.servers?.login, view.clock.now())],
    ["listeners", unusable === 0 ? `${total}` : `${total}, ${unusable} of them carry no traffic`],
    ["upstreams", upstreamsText(view, upstreams)],
    ["open connections", String(merged.connections.length)],
    ["open requests", requestsText(merged.connections)],
    ["version", `${view.info.version} (${view.info.commit}), ${view.info.engine}`],
  ];
  // A proxy without an identity has no certificate either.
  const known = rows.filter(([, value]) => value !== "");
  const troubles = [
    ...reasons,
    ...warnings,
    ...view.refused().map(({ what, reason }) => `${what}: ${reason}`),
    ...troubleTexts(upstreams),
    ...failing.map(({ watch, message }) => `${watch}: ${message}`),
    ...merged.plugins.filter(({ state }) => state === "broken").map(
      ({ name, listener, lastFailure }) =>
        `plugin ${name} of ${listener} is not called for a while: ${lastFailure?.reason ?? ""}`,
    ),
  ];
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>Postern ${snapshot?.service ?? ""}</title>
        <style>
    body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
    td { padding: 0 1.5em 0 0; vertical-align: top }
    td, li { overflow-wrap: anywhere }
    td:first-child { color: #666; white-space: nowrap }
    .secrets { border-collapse: collapse; width: 100% }
    .secrets th { text-align: left; padding: 0 1em 0 0 }
    .secrets td { padding: .2em 1em .2em 0; border-top: 1px solid #ddd }
    .secrets td:first-child { color: inherit; white-space: normal }
    .secrets td:nth-child(3) { white-space: nowrap }
    .secrets td.bad { border: 0; padding-top: 0; color: #a30 }
    @media (max-width: 50em) {
      .secrets tr { display: block; padding: .3em 0 }
      .secrets tr:first-child { display: none }
      .secrets td { display: block; border: 0; padding: 0 }
      .secrets td:first-child { font-weight: 600 }
      .secrets td.bad { font-weight: 400 }
      .secrets td[title]:not(:empty)::before { content: attr(title) ": "; color: #666 }
    }
    code { font: 14px ui-monospace, monospace }
    </style>
      </head>
      <body>
    <h1>Postern ${snapshot?.service ?? ""}</h1>
    <table>${known.map(([key, value]) =>
      html`
        <tr>
          <td>${key}</td>
          <td>${value}</td>
        </tr>
      `
    )}</table>
    ${secretsSection(view)}
    ${troubles.length === 0 ? "" : html`
      <h2>Trouble</h2>
      <ul>${[...new Set(troubles)].map((text) => html`<li>${text}</li>`)}</ul>
    `}
    <h2>Pages</h2>
    <table>${PATHS.map(([path, about, method]) =>
      html`
        <tr>
          <td>${method
            ? html`<code>${method} ${path}</code>`
            : html`<a href="${path}"><code>${path}</code></a>`}</td>
          <td>${about}</td>
        </tr>
      `
    )}</table>
      </body>
    </html>
  `;
}

/** `""`: there are none. */
function upstreamsText(view: AdminView, troubles: readonly UpstreamTrouble[]): string {
  const total = declaredUpstreams(view).length;
  if (total === 0) return "";
  const unusable = new Set(troubles.map(({ id }) => id)).size;
  return unusable === 0 ? `${total}` : `${total}, ${unusable} of them not usable`;
}

/** `""` where no connection carries HTTP. */
function requestsText(connections: MergedView["connections"]): string {
  const carriers = connections.flatMap(({ http }) => http ?? []);
  return carriers.length === 0 ? "" : String(carriers.reduce((sum, { open }) => sum + open, 0));
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

/** There may be a thousand certificates fetched on demand; `/config_dump` has all. */
const SECRETS_SHOWN = 200;
/** Missing and failing secrets come first. */
const ORDER = ["missing", "warming", "active"] as const;

/** `""` where all credentials come from the agent. */
function secretsSection(view: AdminView): Html | "" {
  const { statuses } = view.secretsReport();
  const warming = view.source()?.warming ?? [];
  if (statuses.length === 0 && warming.length === 0) return "";
  const nowMs = view.clock.now();
  const shown = [...statuses].sort((a, b) => rank(a) - rank(b)).slice(0, SECRETS_SHOWN);
  const more = statuses.length - shown.length;
  return html`
    <h2>Secrets</h2>
    ${warming.length === 0 ? "" : html`
      <p>Not open yet:</p>
      <ul>${warming.map((text) => html`<li>${text}</li>`)}</ul>
    `}
    <table class="secrets">
      <tr><th>name</th><th>source</th><th>state</th><th>version</th><th>serial</th><th>expires</th></tr>
      ${shown.map((status) => rowsOf(status, nowMs))}
    </table>
    ${more === 0
      ? ""
      : html`<p>and ${String(more)} more, in <a href="/config_dump">/config_dump</a></p>`}
  `;
}

function rowsOf(status: SecretStatus, nowMs: number): Html {
  const { name, source, state, version, certificate, fault } = status;
  return html`
    <tr>
      <td>${name}</td>
      <td title="source">${source}</td>
      <td title="state">${state}</td>
      <td title="version">${version}</td>
      <td title="serial">${certificate?.serial ?? ""}</td>
      <td title="expires">${certificate ? expiryText(certificate, nowMs) : ""}</td>
    </tr>
    ${fault === "" ? "" : html`
      <tr>
        <td colspan="6" class="bad">${fault}</td>
      </tr>
    `}
  `;
}

function expiryText(certificate: NonNullable<SecretStatus["certificate"]>, nowMs: number): string {
  const until = dateText(certificate.notAfterMs).replace(/:\d\d\.\d+Z$/, "Z").replace("T", " ");
  const left = `${until}, ${timeLeft(certificate, nowMs)}`;
  if (nowMs > certificate.notAfterMs) return `${left}: EXPIRED`;
  return isNearExpiry(certificate, nowMs) ? `${left}: soon` : left;
}

function rank({ state, fault }: SecretStatus): number {
  return ORDER.indexOf(state) + (fault === "" ? ORDER.length : 0);
}
