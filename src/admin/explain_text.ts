/**
 * What would become of a request, for people at a terminal.
 *
 * @module
 */

import { formatSpanMs } from "../base/mod.ts";
import type { LocalReply } from "../proxy/mod.ts";
import {
  endOf,
  type ExplainedEndpoint,
  type ExplainedSplit,
  type ExplainedTarget,
  type ExplanationView,
} from "./explain.ts";
import { lines } from "./texts.ts";

type Rows = readonly (readonly string[])[];
type Permissions = ExplanationView["permissions"];

const LABEL = "permissions".length + 2;

export function explainText(shown: ExplanationView): string {
  const { listener, direction, protocol, source, sourceNote, request, route, rule } = shown;
  const { local } = shown;
  const sections: [label: string, rows: Rows][] = [
    ["request", request ? [[`${request.method} ${request.host}${request.path}`]] : []],
    ["listener", [[`${listener} (${direction}, ${protocol})`]]],
    ["source", source === null ? [] : [[source], ...sourceNote === "" ? [] : [[sourceNote]]]],
    ["verdict", [[verdictText(shown)]]],
    // A refusal by it has said so.
    ["rule", rule === "" || rule === shown.answer?.reason ? [] : [[rule]]],
    ["permissions", permissionRows(shown.permissions)],
    ["tokens", shown.tokens.map((text) => [text])],
    ["route", route ? [[`${route.name} (${route.matches}) to ${route.service}`]] : []],
    ["plugins", shown.plugins.map(pluginRow)],
    ["local", local ? [[local.address], ...sentRows(local.sent)] : []],
    ...shown.splits.map((split): [string, Rows] => ["to", splitRows(split, shown.workers)]),
    ["timeouts", [[
      `request ${timeOf(shown.requestTimeoutMs)}, idle ${
        timeOf(shown.idleTimeoutMs)
      } where no plugin says another`,
    ]]],
    ["limits", limitRows(shown.limits)],
    ["unfollowed", shown.unfollowed.map((sentence) => [sentence])],
    ["not known", shown.unknown.map((sentence) => [sentence])],
  ];
  return lines(sections.flatMap(([label, rows]) => section(label, rows)));
}

function verdictText({ answer, verdict, status, splits, local }: ExplanationView): string {
  if (answer) return answerText(answer);
  const callees = new Set(
    splits.flatMap(({ targets }) => targets.flatMap(({ callee }) => callee ?? [])),
  );
  const namesOf = (wanted: string) =>
    [
      ...new Set(
        [...callees].filter(({ verdict }) => verdict === wanted)
          .map(({ service }) => service),
      ),
    ].join(", ");
  if (verdict === "depends") {
    const goOn = splits.filter((split) => endOf(split) === null);
    const share = goOn.reduce((sum, { chance }) => sum + chance, 0);
    return `depends on the split: ${percent(share)} of the requests go on`;
  }
  if (verdict === "deny") {
    if (status === 0) return `the connection is closed by ${namesOf("deny")}`;
    const what = status === 403 ? "intentions" : "proxy";
    return `refused with ${status} by the ${what} of ${namesOf("deny")}`;
  }
  if (local) return "goes on to the application";
  const unknown = namesOf("unknown");
  return unknown === "" ? "goes on" : `goes on; what the intentions of ${unknown} say is not known`;
}

function answerText({ status, grpcStatus, reason }: LocalReply): string {
  if (status === 0) return `the connection is closed: ${reason}`;
  const grpc = grpcStatus === null ? "" : ` (gRPC: status ${grpcStatus})`;
  return `${status < 400 ? "answered" : "refused"} with ${status}${grpc}: ${reason}`;
}

function permissionRows(permissions: Permissions): Rows {
  return permissions.map(({ permission, text, unmet, decides }) => [
    String(permission),
    text,
    unmet === null
      ? `covers it: ${decides === "deny" ? "denies" : "allows"}`
      : decides === null
      ? `does not cover it: it needs ${unmet}`
      : `covers it and denies, without ${unmet}`,
  ]);
}

function pluginRow(
  { name, phase, onFailure, isBroken, config, routeConfig }: ExplanationView["plugins"][number],
): string[] {
  const said = [
    ...routeConfig === undefined ? [] : [`on this route ${JSON.stringify(routeConfig)}`],
    ...isEmpty(config) ? [] : [`configured ${JSON.stringify(config)}`],
    ...onFailure === "skip" ? ["passed by where it fails"] : [],
    ...isBroken ? ["broken: not asked now"] : [],
  ];
  return [phase, name, said.join("; ")];
}

function isEmpty(config: unknown): boolean {
  return typeof config !== "object" || config === null || Object.keys(config).length === 0;
}

function splitRows(split: ExplainedSplit, workers: number): Rows {
  const { chance, answer, sent, balancing, hashedBy, plugins, lack, targets } = split;
  const by = hashedBy.length > 0 ? ` by ${hashedBy.join(", ")}` : "";
  return [
    [`${percent(chance)} of the requests, ${balancing.kind}${by}`],
    ...answer ? [[answerText(answer)]] : sentRows(sent),
    ...Object.entries(plugins).map(([name, config]) => [
      `${name} is told ${JSON.stringify(config)}`,
    ]),
    ...lack === "" ? [] : [[lack]],
    ...targets.flatMap((target, at) => targetRows(target, { isFirst: at === 0, workers, sent })),
  ];
}

function sentRows(sent: ExplainedSplit["sent"]): Rows {
  return sent ? [[`sent as ${sent.method} ${sent.host}${sent.path}`]] : [];
}

function targetRows(
  { target, connectTimeoutMs, lack, endpoints, callee }: ExplainedTarget,
  { isFirst, workers, sent }: {
    readonly isFirst: boolean;
    readonly workers: number;
    readonly sent: ExplainedSplit["sent"];
  },
): Rows {
  const title = `${isFirst ? "first" : "then "} ${target}, connects within ${
    timeOf(connectTimeoutMs)
  }`;
  return [
    [lack === "" ? title : `${title}: ${lack}`],
    ...aligned(endpoints.map((endpoint) => endpointRow(endpoint, workers))).map(indented),
    ...callee ? calleeRows(callee, sent).map(indented) : [],
  ];
}

function calleeRows(
  { service, verdict, path, reason, permissions }: NonNullable<ExplainedTarget["callee"]>,
  sent: ExplainedSplit["sent"],
): readonly string[] {
  const isRead = path !== null && sent !== null && path !== sent.path;
  const read = isRead ? [`the proxy of ${service} reads the path as ${path}`] : [];
  if (verdict === "unknown") return [...read, `intentions of ${service}: not known: ${reason}`];
  return [
    ...read,
    `intentions of ${service}: ${verdict}: ${reason}`,
    ...aligned(permissionRows(permissions)).map((row) => `  ${row}`),
  ];
}

function indented(row: string): string[] {
  return [`  ${row}`];
}

function endpointRow(endpoint: ExplainedEndpoint, workers: number): string[] {
  const { address, id, weight, active, failures, lastFailure, lastResort, ejectedBy, unreachable } =
    endpoint;
  const by = workers > 1 ? ` by ${ejectedBy} of ${workers} workers` : "";
  const isHealthy = ejectedBy === 0 && !lastResort;
  const health = [
    ...isHealthy ? ["healthy"] : [],
    ...lastResort
      ? ["fails its checks, or is not registered any more: tried when nothing else is left"]
      : [],
    ...ejectedBy > 0 ? [`ejected${by}`] : failures > 0 ? [`failed ${failures} times in a row`] : [],
    ...lastFailure === "" ? [] : [`last with ${lastFailure}`],
  ].join(", ");
  const now = unreachable === null
    ? ""
    : unreachable === ""
    ? ", takes connections"
    : `, takes no connection: ${unreachable}`;
  return [address, id, `weight ${weight}`, `${active} open`, health + now];
}

function limitRows(limits: ExplanationView["limits"]): Rows {
  if (!limits) return [];
  return Object.entries(limits).flatMap(([what, places]) =>
    places ? [[what, `${places.taken} of ${places.limit ?? "any number"}`]] : []
  );
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`;
}

function timeOf(ms: number): string {
  if (ms === 0) return "none";
  return ms % 1_000 === 0 ? formatSpanMs(ms) : `${ms} ms`;
}

/** The label stands before the first of its lines; a section without rows is left out. */
function section(label: string, rows: Rows): string[] {
  return aligned(rows).map((row, at) => `${(at === 0 ? label : "").padEnd(LABEL)}${row}`.trimEnd());
}

function aligned(rows: Rows): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ").trimEnd()
  );
}
