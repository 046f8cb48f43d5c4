/** An explained request as text for a terminal. @module */

import { formatSpanMs } from "../../base/mod.ts";
import type { LocalReply } from "../../proxy/mod.ts";
import {
  endingOf,
  type ExplainedEndpoint,
  type ExplainedSplit,
  type ExplainedTarget,
  type ExplanationView,
  instancesOf,
} from "./verdict.ts";
import { isEmptyConfig } from "./merge_explained.ts";
import { failureText } from "../upstream_troubles.ts";
import { lines, NOT_SHOWN } from "../redact.ts";

type Rows = readonly (readonly string[])[];
type Permissions = ExplanationView["permissions"];

const LABEL = "permissions".length + 2;

/** `admin`: the address that was asked. */
export function explainText(shown: ExplanationView, admin: string): string {
  const { proxy, listener, direction, protocol, source, sourceNote, request, route, rule } = shown;
  const { local } = shown;
  const kind = protocol === null ? direction : `${direction}, ${protocol}`;
  const sections: [label: string, rows: Rows][] = [
    ["proxy", [[proxyText(proxy, admin)]]],
    ["request", request ? [[`${request.method} ${request.host}${request.path}`]] : []],
    ["listener", [[`${listener} (${kind})`]]],
    ["source", source === null ? [] : [[source], ...sourceNote === "" ? [] : [[sourceNote]]]],
    ["verdict", [[verdictText(shown)]]],
    ["recently", shown.refusing.map((sentence) => [sentence])],
    ["ask there", shown.next.map((command) => [command])],
    // A refusal by the rule names it already.
    ["rule", rule === "" || rule === shown.answer?.reason ? [] : [[rule]]],
    ["permissions", permissionRows(shown.permissions)],
    ["tokens", shown.tokens.map((text) => [text])],
    ["route", route ? [[`${route.name} (${route.matches}) to ${route.service}`]] : []],
    ["plugins", shown.plugins.map(pluginRow)],
    ["local", local ? [[local.address], ...sentRows(local.sent)] : []],
    ...shown.splits.map((split): [string, Rows] => ["to", splitRows(split, shown)]),
    ["timeouts", timeoutRows(shown)],
    ["limits", limitRows(shown.limits)],
    ["unfollowed", shown.unfollowed.map((sentence) => [sentence])],
    ["not known", shown.unknown.map((sentence) => [sentence])],
  ];
  return lines(sections.flatMap(([label, rows]) => section(label, rows)));
}

function proxyText({ id, service }: ExplanationView["proxy"], admin: string): string {
  return `${id === "" ? service : `${id} of service ${service}`}, admin server ${admin}`;
}

function verdictText(
  { answer, verdict, status, protocol, splits, local }: ExplanationView,
): string {
  if (answer) return answerText(answer);
  const callees = splits.flatMap(({ targets }) => targets.flatMap(({ callee }) => callee ?? []));
  const callersOf = (wanted: string) => callees.filter((callee) => callee.verdict === wanted);
  const namesOf = (wanted: string) =>
    [...new Set(callersOf(wanted).map(({ service }) => service))].join(", ");
  switch (verdict) {
    case "depends": {
      const allowed = splits.filter((split) => endingOf(split).verdict === "allow");
      const share = allowed.reduce((sum, { chance }) => sum + chance, 0);
      return `depends on the split: ${percent(share)} of the ${unitOf(protocol)} go on`;
    }
    case "deny": {
      if (status === 0) {
        const [denial] = callersOf("deny");
        return `the connection is closed by the intentions of ${
          namesOf("deny")
        }: ${denial?.reason}`;
      }
      const what = status === 403 ? "intentions" : "proxy";
      return `refused with ${status} by the ${what} of ${namesOf("deny")}`;
    }
    case "failing": {
      const worst = worstOf(splits);
      return `leaves this proxy${worst ? `; ${failureText(worst, unitOf(protocol))}` : ""}`;
    }
    case "answer":
      return "answered by this proxy on every split";
    case "fail":
      return "fails on every split";
    case "allow": {
      if (local) return "goes on to the application";
      const unknown = namesOf("unknown");
      const worst = worstOf(splits);
      return [
        "goes on",
        ...unknown === "" ? [] : [`the intentions of ${unknown} are not known`],
        ...worst ? [failureText(worst, unitOf(protocol))] : [],
      ].join("; ");
    }
  }
}

/** The one with the most failures where the last request to every instance failed. */
function worstOf(splits: readonly ExplainedSplit[]): ExplainedEndpoint | undefined {
  const instances = splits.flatMap(({ targets }) => instancesOf(targets));
  if (instances.some(({ lastFailure }) => lastFailure === "")) return undefined;
  return [...instances].sort((a, b) => b.failures - a.failures)[0];
}

function answerText({ status, grpcStatus, code, reason }: LocalReply): string {
  if (code === "listen_failed") return `the connection is refused: ${reason}`;
  if (status === 0) return `the connection is closed: ${reason}`;
  const grpc = grpcStatus === null ? "" : ` (gRPC: status ${grpcStatus})`;
  return `${status < 400 ? "answered" : "refused"} with ${status}${grpc}: ${reason}`;
}

function unitOf(protocol: ExplanationView["protocol"]): "connections" | "requests" {
  return protocol === null || protocol === "tcp" ? "connections" : "requests";
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
  const notes = [
    configText("on this route", routeConfig),
    configText("configured", config),
    onFailure === "skip" ? "skipped when it fails" : "",
    isBroken ? "broken: not run for a while" : "",
  ];
  return [phase, name, notes.filter((note) => note !== "").join("; ")];
}

/** `""`: nothing is configured that may be shown. */
function configText(label: string, config: unknown): string {
  const visible = withoutHidden(config);
  return isEmptyConfig(visible) ? "" : `${label} ${JSON.stringify(visible)}`;
}

/** Removes members with hidden text, and members that are empty without them. */
function withoutHidden(value: unknown): unknown {
  if (value === NOT_SHOWN || value === undefined) return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const kept = value.map(withoutHidden).filter((each) => each !== undefined);
    return kept.length === 0 ? undefined : kept;
  }
  const kept = Object.entries(value).map(([key, each]) => [key, withoutHidden(each)] as const)
    .filter(([, each]) => each !== undefined);
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

function splitRows(split: ExplainedSplit, shown: ExplanationView): Rows {
  const { chance, answer, sent, balancing, hashedBy, plugins, lack, targets } = split;
  const by = hashedBy.length > 0 ? ` by ${hashedBy.join(", ")}` : "";
  return [
    [`${percent(chance)} of the ${unitOf(shown.protocol)}, ${balancing.kind}${by}`],
    ...answer ? [[answerText(answer)]] : sentRows(sent),
    ...Object.entries(plugins).map(([name, config]) => configText(`${name} configured`, config))
      .filter((text) => text !== "").map((text) => [text]),
    ...lack === "" ? [] : [[lack]],
    ...targets.flatMap((target, at) => targetRows(target, { isFirst: at === 0, shown, sent })),
  ];
}

function sentRows(sent: ExplainedSplit["sent"]): Rows {
  return sent ? [[`sent as ${sent.method} ${sent.host}${sent.path}`]] : [];
}

function targetRows(
  { target, connectTimeoutMs, lack, endpoints, callee }: ExplainedTarget,
  { isFirst, shown, sent }: {
    readonly isFirst: boolean;
    readonly shown: ExplanationView;
    readonly sent: ExplainedSplit["sent"];
  },
): Rows {
  const title = `${isFirst ? "first" : "then "} ${target}, connects within ${
    timeOf(connectTimeoutMs)
  }`;
  return [
    [lack === "" ? title : `${title}: ${lack}`],
    ...aligned(endpoints.map((endpoint) => endpointRow(endpoint, shown))).map(indented),
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

function endpointRow(
  endpoint: ExplainedEndpoint,
  { workers, hasConsul, protocol }: ExplanationView,
): string[] {
  const { address, id, weight, active, failures, lastFailure, lastResort, ejectedBy, unreachable } =
    endpoint;
  const by = workers > 1 ? ` by ${ejectedBy} of ${workers} workers` : "";
  const notes = [
    lastResort
      ? "fails its checks, or is not registered any more: tried when nothing else is left"
      : hasConsul
      ? "passes Consul's checks"
      : "configured",
    ejectedBy > 0
      ? `ejected${by}`
      : failures === 0
      ? ""
      : failures === 1
      ? "failed once"
      : `failed ${failures} times in a row`,
    lastFailure === "" ? "" : `last with ${lastFailure}`,
    unreachable === null
      ? ""
      : unreachable === ""
      ? "takes connections"
      : `takes no connection: ${unreachable}`,
  ];
  const unit = unitOf(protocol);
  const open = `${active} ${active === 1 ? unit.slice(0, -1) : unit} open`;
  return [address, id, `weight ${weight}`, open, notes.filter((note) => note !== "").join(", ")];
}

/** Plugins that change no timeout, or whose timeouts are known. */
const KEEPS_TIMEOUTS: ReadonlySet<string> = new Set(["timeout", "retry"]);

function timeoutRows(shown: ExplanationView): Rows {
  const { protocol, plugins, splits } = shown;
  if (protocol === null) return [];
  const unless = plugins.every(({ name }) => KEEPS_TIMEOUTS.has(name))
    ? ""
    : ", unless a plugin sets others";
  const textOf = (times: Pick<ExplainedSplit, "requestTimeoutMs" | "idleTimeoutMs">) => {
    const idle = `idle ${timeOf(times.idleTimeoutMs)}`;
    return protocol === "tcp" ? idle : `request ${timeOf(times.requestTimeoutMs)}, ${idle}`;
  };
  const texts = new Set((splits.length > 0 ? splits : [shown]).map(textOf));
  if (texts.size === 1) return [...texts].map((text) => [text + unless]);
  return splits.map((split) => [`${percent(split.chance)}: ${textOf(split)}${unless}`]);
}

/** Connections without a request are kept for the next one. */
function limitRows(limits: ExplanationView["limits"]): Rows {
  if (!limits) return [];
  const { connections, requests } = limits;
  const areIdle = requests?.taken === 0 && connections.taken > 0;
  return Object.entries(limits).flatMap(([name, places]) => {
    if (!places) return [];
    const kept = areIdle && name === "connections" ? " open, idle until the next requests" : "";
    return [[name, `${places.taken} of ${places.limit}${kept}`]];
  });
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`;
}

function timeOf(ms: number): string {
  if (ms === 0) return "none";
  return ms % 1_000 === 0 ? formatSpanMs(ms) : `${ms} ms`;
}

/** A label before the first line; a section without rows is left out. */
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
