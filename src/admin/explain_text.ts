/**
 * What would become of a request, for people at a terminal.
 *
 * @module
 */

import { formatSpanMs } from "../base/mod.ts";
import type { Shown, ShownEndpoint, ShownSplit } from "./explain.ts";
import { lines } from "./texts.ts";

type Rows = readonly (readonly string[])[];

const LABEL = "permissions".length + 2;

export function explainText(shown: Shown): string {
  const { listener, direction, protocol, source, request, route, rule, workers } = shown;
  const sections: [label: string, rows: Rows][] = [
    ["request", request ? [[`${request.method} ${request.host}${request.path}`]] : []],
    ["listener", [[`${listener} (${direction}, ${protocol})`]]],
    ["source", source === null ? [] : [[source]]],
    ["verdict", [[verdictOf(shown)]]],
    ["rule", rule === "" ? [] : [[rule]]],
    [
      "permissions",
      shown.permissions.map(({ permission, text, unmet }) => [
        String(permission),
        text,
        unmet === null ? "holds, and decides" : `does not hold: ${unmet}`,
      ]),
    ],
    ["route", route ? [[`${route.name} (${route.matches}) to ${route.service}`]] : []],
    ["plugins", shown.plugins.map(pluginRow)],
    ["local", shown.local === null ? [] : [[shown.local]]],
    ...shown.splits.map((split): [string, Rows] => ["to", splitRows(split, workers)]),
    ["timeouts", [[
      `request ${timeOf(shown.requestTimeoutMs)}, idle ${
        timeOf(shown.idleTimeoutMs)
      } where no plugin says another`,
    ]]],
    ["limits", limitRows(shown.limits)],
    ["not known", shown.unknown.map((sentence) => [sentence])],
  ];
  return lines(sections.flatMap(([label, rows]) => section(label, rows)));
}

function verdictOf({ verdict, status }: Shown): string {
  if (verdict === "allow") return "goes on";
  return status === 0 ? "refused" : `refused with ${status}`;
}

function pluginRow(
  { name, phase, onFailure, isBroken, config, routeConfig }: Shown["plugins"][number],
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

function splitRows(
  { chance, balancing, hashedBy, plugins, lack, targets }: ShownSplit,
  workers: number,
): Rows {
  const by = hashedBy.length > 0 ? ` by ${hashedBy.join(", ")}` : "";
  const share = `${Number((chance * 100).toFixed(2))} %`;
  return [
    [`${share} of the requests, ${balancing.kind}${by}`],
    ...Object.entries(plugins).map(([name, config]) => [
      `${name} is told ${JSON.stringify(config)}`,
    ]),
    ...lack === "" ? [] : [[lack]],
    ...targets.flatMap(({ target, connectTimeoutMs, lack, endpoints }, at) => [
      [
        `${at === 0 ? "first" : "then "} ${target}, connects within ${timeOf(connectTimeoutMs)}` +
        (lack === "" ? "" : `: ${lack}`),
      ],
      ...aligned(endpoints.map((endpoint) => endpointRow(endpoint, workers))).map((
        row,
      ) => [`  ${row}`]),
    ]),
  ];
}

function endpointRow(endpoint: ShownEndpoint, workers: number): string[] {
  const { address, id, weight, active, failures, lastResort, ejectedBy } = endpoint;
  const by = workers > 1 ? ` by ${ejectedBy} of ${workers} workers` : "";
  const health = ejectedBy > 0
    ? `ejected${by}`
    : failures > 0
    ? `healthy, failed ${failures} times in a row`
    : "healthy";
  const last = lastResort ? ", only when nothing else is left" : "";
  return [address, id, `weight ${weight}`, `${active} open`, health + last];
}

function limitRows(limits: Shown["limits"]): Rows {
  if (!limits) return [];
  return Object.entries(limits).flatMap(([what, places]) =>
    places ? [[what, `${places.taken} of ${places.limit ?? "any number"}`]] : []
  );
}

function timeOf(ms: number): string {
  if (ms === 0) return "none";
  return ms % 1_000 === 0 ? formatSpanMs(ms) : `${ms} ms`;
}

/** The label stands before the first of its lines; what has none is left out. */
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
