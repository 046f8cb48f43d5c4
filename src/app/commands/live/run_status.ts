/** `postern status`: the state of every sidecar of this machine. @module */

import process from "node:process";
import * as v from "valibot";
import { type AskAdmin, askAdmin } from "../../../admin/mod.ts";
import { escapeUnseen, formatSpanMs, messageOf, systemClock } from "../../../base/mod.ts";
import { parseJson } from "../../../wire/mod.ts";
import {
  findSidecars,
  type FoundSidecar,
  noneFound,
  type WhichSidecars,
} from "../../process/find_admin.ts";
import {
  type Cell,
  type Column,
  paint,
  type Screen,
  screenOf,
  tableLines,
  tableWidth,
  tint,
  type Tinted,
  type Tone,
  wrapped,
} from "./terminal.ts";

export interface StatusOptions {
  readonly which: WhichSidecars;
  /** Troubles that do not stop traffic count for the exit code, too. */
  readonly strict: boolean;
  /** The exit code is the answer. */
  readonly quiet: boolean;
  readonly json: boolean;
  readonly noColor: boolean;
}

type SidecarState = "ready" | "not ready" | "starting" | "draining" | "no answer";

interface SidecarStatus {
  /** `127.0.0.1:19000`. */
  readonly admin: string;
  readonly service: string;
  readonly proxyId: string;
  readonly state: SidecarState;
  /** Why it is not ready. */
  readonly reasons: readonly string[];
  /** Faults beside that: refused and unusable upstreams, pages that could not be read. */
  readonly troubles: readonly TroubleStatus[];
  /** SPIFFE URI; `""`: none. */
  readonly identity: string;
  /** The certificate that expires first; `null`: none. */
  readonly certificate: CertificateStatus | null;
  /** All upstreams together. */
  readonly endpoints: EndpointCounts;
  readonly openConnections: number;
  readonly version: string;
  readonly pid: number | null;
  /** `2d3h`. */
  readonly uptime: string;
}

interface CertificateStatus {
  /** `""`: not known. */
  readonly renewal: string;
  /** Start of the span in which it is renewed; `""`: its source decides. */
  readonly renewalDue: string;
  readonly notAfter: string;
  readonly daysLeft: number;
  readonly nearExpiry: boolean;
}

type TroubleStatus = v.InferOutput<typeof Ready>["troubles"][number];

interface EndpointCounts {
  /** With those that Consul shows as failing or in maintenance mode. */
  readonly total: number;
  readonly healthy: number;
  readonly ejected: number;
}

const ASK_TIMEOUT_MS = 5_000;
/** Width of the lines where standard output is not a terminal. */
const PIPE_COLUMNS = 100;
/** Room for the certificates and endpoints of a large gateway. */
const LIMIT_BYTES = 8 * 1_048_576;
const NONE_FOUND = 2;

const Info = v.object({
  uptime_all_epochs: v.optional(v.string(), ""),
  node: v.object({ id: v.string(), cluster: v.string() }),
  postern: v.object({
    version: v.string(),
    pid: v.optional(v.number()),
    options: v.object({ config: v.optional(v.string()), sidecarFor: v.optional(v.string()) }),
  }),
});
const Certs = v.object({
  uri: v.optional(v.string(), ""),
  certificates: v.array(v.object({
    name: v.optional(v.string(), ""),
    renewal: v.optional(v.object({
      works: v.boolean(),
      fault: v.string(),
      text: v.string(),
      due: v.nullable(v.object({ from: v.string() })),
    })),
    cert_chain: v.array(v.object({
      expiration_time: v.string(),
      days_left: v.number(),
      near_expiry: v.boolean(),
    })),
  })),
});
const Ready = v.object({
  state: v.string(),
  reasons: v.array(v.string()),
  troubles: v.array(v.object({ text: v.string(), stopsTraffic: v.boolean() })),
});
const Clusters = v.object({
  failing: v.optional(v.array(v.unknown()), []),
  endpoints: v.array(v.object({ ejectedForMs: v.number(), lastResort: v.boolean() })),
});
const Connections = v.object({ total: v.number() });
const Traffic = v.object({
  refusals: v.array(v.object({
    at: v.string(),
    direction: v.string(),
    caller: v.string(),
    code: v.string(),
  })),
});

/**
 * 0: all are ready and carry all of their traffic; 1: some are not ready, or a part of their traffic fails;
 * with `strict` also where there is any trouble; 2: there is none.
 */
export async function runStatus(options: StatusOptions): Promise<number> {
  const { text, fault = "", exitCode } = await statusText(options, screenOf(options), askAdmin);
  if (!options.quiet) process.stdout.write(text);
  process.stderr.write(fault);
  return exitCode;
}

interface StatusText {
  readonly text: string;
  /** For standard error. */
  readonly fault?: string;
  readonly exitCode: number;
}

export async function statusText(
  { which, strict, json }: Pick<StatusOptions, "which" | "strict" | "json">,
  screen: Screen,
  ask: AskAdmin,
): Promise<StatusText> {
  const sidecars = await Promise.all(
    (await findSidecars(which, ask)).map((found) => statusOf(found, ask)),
  );
  const exitCode = sidecars.every(({ state }) => state === "no answer")
    ? NONE_FOUND
    : sidecars.every((sidecar) => isFine(sidecar, strict))
    ? 0
    : 1;
  if (json) return { text: `${escapeUnseen(JSON.stringify({ sidecars }))}\n`, exitCode };
  if (sidecars.length === 0) return { text: "", fault: `postern: ${noneFound(which)}\n`, exitCode };
  return { text: statusLines(sidecars, screen).map((line) => `${line}\n`).join(""), exitCode };
}

function isFine({ state, troubles, certificate }: SidecarStatus, strict: boolean): boolean {
  if (state !== "ready" || troubles.some(({ stopsTraffic }) => stopsTraffic)) return false;
  if (certificate && certificate.daysLeft < 0) return false;
  return !strict || troubles.length === 0 && !certificate?.nearExpiry;
}

async function statusOf({ admin, at }: FoundSidecar, ask: AskAdmin): Promise<SidecarStatus> {
  const troubles: TroubleStatus[] = [];
  const read = async (path: string) =>
    (await ask(admin, { path, timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES })).body;
  const page = async <T>(path: string, schema: v.GenericSchema<unknown, T>, without: T) => {
    try {
      return v.parse(schema, parseJson(await read(path)));
    } catch (error) {
      troubles.push({ text: `Cannot read ${path}: ${messageOf(error)}`, stopsTraffic: false });
      return without;
    }
  };
  let info: v.InferOutput<typeof Info>;
  let ready: v.InferOutput<typeof Ready>;
  try {
    [info, ready] = await Promise.all([
      read("/server_info").then((body) => v.parse(Info, parseJson(body))),
      read("/ready?format=postern").then(readReady),
    ]);
  } catch (error) {
    return { ...NO_ANSWER, admin: at, reasons: [whyNot(error)] };
  }
  const [certs, { endpoints, failing }, { total }, { refusals }] = await Promise.all([
    page("/certs", Certs, { uri: "", certificates: [] }),
    page("/clusters?format=postern", Clusters, { endpoints: [], failing: [] }),
    page("/connections?limit=0", Connections, { total: 0 }),
    page("/traffic", Traffic, { refusals: [] }),
  ]);
  const { node, postern, uptime_all_epochs: uptime } = info;
  const inUse = endpoints.filter(({ lastResort }) => !lastResort);
  const ejected = inUse.filter(({ ejectedForMs }) => ejectedForMs > 0).length;
  const { config = "", sidecarFor = "" } = postern.options;
  return {
    admin: at,
    service: node.cluster || sidecarFor,
    proxyId: node.id || config,
    state: STATES[ready.state] ?? "not ready",
    reasons: ready.reasons,
    troubles: [
      ...ready.troubles,
      ...applicationTroubles(refusals, at),
      ...troubles,
      ...renewalTroubles(certs, ready.troubles),
    ],
    identity: certs.uri,
    certificate: firstToExpire(certs),
    endpoints: {
      total: inUse.length + failing.length,
      healthy: inUse.length - ejected,
      ejected,
    },
    openConnections: total,
    version: postern.version,
    pid: postern.pid ?? null,
    uptime: uptime && formatSpanMs(parseFloat(uptime) * 1_000),
  };
}

/**
 * The answer to `/ready?format=postern`. A proxy that was started before its executable was replaced may answer
 * with lines of text.
 */
export function readReady(body: string): v.InferOutput<typeof Ready> {
  if (!/^[A-Z_]+\n/.test(body)) return v.parse(Ready, parseJson(body));
  const [state = "", ...lines] = body.trimEnd().split("\n");
  const isWarning = (line: string) => line.startsWith("warning: ");
  return {
    state,
    reasons: lines.filter((line) => !isWarning(line)),
    troubles: lines.filter(isWarning).map((line) => {
      const text = line.slice("warning: ".length);
      return { text, stopsTraffic: /^(?:upstream|listeners?) /.test(text) };
    }),
  };
}

const NO_ANSWER: Omit<SidecarStatus, "admin" | "reasons"> = {
  service: "",
  proxyId: "",
  state: "no answer",
  troubles: [],
  identity: "",
  certificate: null,
  endpoints: { total: 0, healthy: 0, ejected: 0 },
  openConnections: 0,
  version: "",
  pid: null,
  uptime: "",
};

const STATES: Readonly<Record<string, SidecarState>> = {
  LIVE: "ready",
  DRAINING: "draining",
  PRE_INITIALIZING: "starting",
};

/** The schema's words mean nothing to an operator. */
function whyNot(error: unknown): string {
  return v.isValiError(error) || error instanceof SyntaxError
    ? "another program than a proxy answers there"
    : messageOf(error);
}

function firstToExpire({ certificates }: v.InferOutput<typeof Certs>): CertificateStatus | null {
  const [first] = certificates
    .flatMap(({ cert_chain: chain, renewal }) => chain.map((one) => ({ ...one, renewal })))
    .sort((a, b) => a.days_left - b.days_left);
  if (!first) return null;
  const { renewal, expiration_time: notAfter, days_left: daysLeft, near_expiry: nearExpiry } =
    first;
  return {
    renewal: renewal?.text ?? "",
    renewalDue: renewal?.due?.from ?? "",
    notAfter,
    daysLeft,
    nearExpiry,
  };
}

const RECENT_MS = 60_000;

/** The local application takes no connection, or ends them without an answer. */
function applicationTroubles(
  refusals: v.InferOutput<typeof Traffic>["refusals"],
  at: string,
): readonly TroubleStatus[] {
  const last = refusals.find(({ direction, code }) =>
    direction === "inbound" && code.startsWith("local_")
  );
  const ageMs = systemClock.now() - Date.parse(last?.at ?? "");
  if (!last || !(ageMs < RECENT_MS)) return [];
  const { code, caller } = last;
  // The line may be copied into a shell.
  const source = /^[\w.-]+$/.test(caller) ? ` -source ${caller}` : "";
  const text = `its application fails (${code}), last ${formatSpanMs(Math.max(ageMs, 0))} ago: ` +
    `postern explain -admin ${at} -inbound${source}`;
  return [{ text, stopsTraffic: true }];
}

/** Renewals that fail, unless a trouble names the reason already. */
function renewalTroubles(
  { certificates }: v.InferOutput<typeof Certs>,
  known: readonly TroubleStatus[],
): readonly TroubleStatus[] {
  return certificates.flatMap(({ name, renewal }) =>
    !renewal || renewal.works || known.some(({ text }) => text.includes(renewal.fault))
      ? []
      : [{ text: `certificate ${name}: ${renewal.text}`, stopsTraffic: false }]
  );
}

interface StatusColumn extends Column {
  readonly cell: (status: SidecarStatus) => Cell;
  /** Left out first where the terminal is too narrow. */
  readonly optional?: true;
}

const STATUS_COLUMNS: readonly StatusColumn[] = [
  { title: "SERVICE", shrinksTo: 8, cell: ({ service }) => service || "-" },
  { title: "PROXY", shrinksTo: 8, cell: ({ proxyId }) => proxyId || "-" },
  { title: "STATE", cell: ({ state }) => tint(state, TONES[state]) },
  { title: "CERT", align: "right", cell: ({ certificate }) => certificateCell(certificate) },
  { title: "RENEWS", align: "right", optional: true, cell: renewsCell },
  { title: "ENDPOINTS", cell: ({ endpoints }) => endpointsCell(endpoints) },
  {
    title: "CONNS",
    align: "right",
    cell: ({ pid, openConnections }) => pid === null ? "-" : String(openConnections),
  },
  { title: "UP", align: "right", cell: ({ uptime }) => uptime || "-", optional: true },
  { title: "PID", align: "right", cell: ({ pid }) => pid === null ? "-" : String(pid) },
  { title: "VERSION", cell: ({ version }) => version || "-" },
  // The form without a host is what -admin takes, too.
  { title: "ADMIN", cell: ({ admin }) => admin.replace(/^127\.0\.0\.1(?=:)/, "") },
];
const IDENTITY: StatusColumn = { title: "IDENTITY", cell: ({ identity }) => identity || "-" };

const TONES: Readonly<Record<SidecarState, Tone>> = {
  ready: "good",
  draining: "warn",
  starting: "warn",
  "not ready": "bad",
  "no answer": "bad",
};

function statusLines(
  sidecars: readonly SidecarStatus[],
  { width = PIPE_COLUMNS, color }: Screen,
): readonly string[] {
  const screen = { width, color };
  const rowsOf = (columns: readonly StatusColumn[]) =>
    sidecars.map((status) => columns.map(({ cell }) => cell(status)));
  const fewest = STATUS_COLUMNS.filter(({ optional }) => !optional);
  const columns =
    [[...STATUS_COLUMNS, IDENTITY], STATUS_COLUMNS].find((columns) =>
      tableWidth(columns, rowsOf(columns)) <= width
    ) ?? fewest;
  const [head = "", ...lines] = tableLines(columns, rowsOf(columns), screen);
  const below = (text: string, tone: Tone) =>
    wrappedReason(text, screen).map((line) => paint(tint(line, tone), screen));
  const details = ({ identity, reasons, troubles }: SidecarStatus) => [
    ...columns.includes(IDENTITY) || identity === "" ? [] : below(identity, "dim"),
    ...reasons.flatMap((reason) => below(reason, "bad")),
    ...troubles.flatMap(({ text, stopsTraffic }) => below(text, stopsTraffic ? "bad" : "warn")),
  ];
  return [head, ...sidecars.flatMap((status, index) => [lines[index] ?? "", ...details(status)])];
}

/** A command is not broken into lines, so that it can be copied. */
function wrappedReason(text: string, screen: Screen): readonly string[] {
  const lines = wrapped(text, "  ", screen);
  const at = text.search(/postern (?:explain|events|doctor) /);
  if (lines.length === 1 || at < 0) return lines;
  return [...wrapped(text.slice(0, at).trimEnd(), "  ", screen), `    ${text.slice(at)}`];
}

function certificateCell(certificate: CertificateStatus | null): Tinted {
  if (!certificate) return tint("-", undefined);
  const { daysLeft, nearExpiry } = certificate;
  if (daysLeft < 0) return tint("expired", "bad");
  const left = formatSpanMs(daysLeft * 86_400_000);
  return nearExpiry ? tint(`${left}!`, "warn") : tint(left, undefined);
}

/** Time until the renewal is due. */
function renewsCell({ certificate }: SidecarStatus): string {
  if (!certificate?.renewalDue) return "-";
  const leftMs = Date.parse(certificate.renewalDue) - systemClock.now();
  return leftMs <= 0 ? "due" : `in ${formatSpanMs(leftMs)}`;
}

function endpointsCell({ total, healthy, ejected }: EndpointCounts): Tinted {
  if (total === 0) return tint("-", undefined);
  const text = `${healthy}/${total}${ejected > 0 ? `, ${ejected} ejected` : ""}`;
  return tint(text, healthy === 0 ? "bad" : healthy < total ? "warn" : undefined);
}
