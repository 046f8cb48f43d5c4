/** Finds a proxy's admin server on this machine, by the flags of the proxy. @module */

import { resolve } from "node:path";
import * as v from "valibot";
import { ADMIN_PORTS, type AdminAddress, type AskAdmin } from "../../admin/mod.ts";
import { type Address, formatAddress } from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import type { ProxyMode } from "../flags/proxy_options.ts";

/** The flag of `postern proxy` that a proxy was started with. */
export interface WantedProxy {
  readonly flag: "sidecar-for" | "proxy-id" | "config";
  readonly value: string;
  /** Only a proxy of this agent; absent: of any agent. */
  readonly agent?: {
    readonly address: string;
    /** The flag or variable that gives it. */
    readonly said: string;
  };
}

/** Selects a running proxy: by its admin server, by the flag that it was started with, or as the only one. */
export type WhichProxy =
  | { readonly kind: "only" }
  | { readonly kind: "address"; readonly admin: Extract<Address, { kind: "tcp" }> }
  | { readonly kind: "proxy"; readonly wanted: WantedProxy };

/** Selects running proxies for the commands that show several. */
export type WhichSidecars =
  | { readonly kind: "all" }
  | { readonly kind: "addresses"; readonly admins: readonly AdminAddress[] }
  | { readonly kind: "proxies"; readonly wanted: readonly WantedProxy[] };

export interface FoundSidecar {
  readonly admin: AdminAddress;
  /** `127.0.0.1:19000`. */
  readonly at: string;
  /** `undefined`: it was not asked, or did not answer. */
  readonly facts?: SidecarFacts;
}

/** Facts of a running proxy, from its admin server; `""`: it does not name one. */
interface SidecarFacts {
  readonly service: string;
  /** Service id that it is the sidecar of. */
  readonly sidecarFor: string;
  readonly proxyId: string;
  /** Path of the configuration file. */
  readonly config: string;
}

type FoundAdmin =
  | { readonly kind: "found"; readonly admin: AdminAddress }
  /** `why` continues a message that begins "the proxy"; it may have several lines. */
  | { readonly kind: "missing"; readonly why: string };

const ASK_TIMEOUT_MS = 2_000;
const HOST = "127.0.0.1";

const Info = v.object({
  node: v.object({ id: v.string(), cluster: v.optional(v.string(), "") }),
  postern: v.object({
    pid: v.optional(v.number()),
    trust_domain: v.optional(v.string()),
    options: v.object({
      sidecarFor: v.optional(v.string()),
      proxyId: v.optional(v.string()),
      config: v.optional(v.string()),
      agent: v.optional(v.string()),
      servers: v.optional(v.string()),
    }),
  }),
});
type Info = v.InferOutput<typeof Info>;

/** The fields of `/server_info` that {@link findProxy} reads. */
export function shownMode(mode: ProxyMode, proxyId: string): Readonly<Record<string, string>> {
  switch (mode.kind) {
    case "agent":
      return {
        ...mode.by === "sidecar_for" && { sidecarFor: mode.id },
        proxyId: proxyId || (mode.by === "proxy_id" ? mode.id : ""),
      };
    case "flags":
      return { proxyId: mode.proxyId };
    case "config":
      return { config: resolve(mode.file) };
  }
}

/** An address is taken as it is. Of several proxies none is taken for the only one. */
export async function findProxy(
  which: WhichProxy,
  options: { readonly ask: AskAdmin; readonly near?: AdminAddress },
): Promise<FoundAdmin> {
  switch (which.kind) {
    case "address":
      return { kind: "found", admin: which.admin };
    case "proxy":
      return await findAdmin(which.wanted, options);
    case "only": {
      const found = await findSidecars({ kind: "all" }, options.ask);
      const [first, second] = found;
      if (first && !second) return { kind: "found", admin: first.admin };
      return { kind: "missing", why: first ? choiceOf(found) : `that is meant: ${NONE_RUNS}` };
    }
  }
}

const NONE_RUNS =
  `no admin server answers on ports ${ADMIN_PORTS.at(0)} to ${ADMIN_PORTS.at(-1)} ` +
  "of 127.0.0.1; start it, or give its -admin-bind, where it has one, as -admin";

/** Lists them with the flag that chooses each. */
export function choiceOf(found: readonly FoundSidecar[]): string {
  const flags = found.map(({ at, facts }) => {
    const flag = flagOf(facts);
    const isUnique = flag !== "" && found.filter((one) => flagOf(one.facts) === flag).length === 1;
    return isUnique ? flag : `-admin ${at}`;
  });
  const width = Math.max(...flags.map(({ length }) => length));
  const rows = found.map(({ at, facts }, index) => {
    return `  ${flags[index]?.padEnd(width)}  ${titleOf(facts)}, admin server ${at}`;
  });
  return [`that is meant: ${found.length} run on this machine; choose one:`, ...rows].join("\n");
}

function flagOf({ sidecarFor, proxyId, config }: SidecarFacts = NO_FACTS): string {
  if (config !== "") return `-config ${config}`;
  if (sidecarFor !== "") return `-sidecar-for ${sidecarFor}`;
  return proxyId === "" ? "" : `-proxy-id ${proxyId}`;
}

function titleOf({ service, proxyId, config }: SidecarFacts = NO_FACTS): string {
  const name = proxyId || config || "a proxy";
  return service === "" ? name : `${name} of service ${service}`;
}

const NO_FACTS: SidecarFacts = { service: "", sidecarFor: "", proxyId: "", config: "" };

/** A short name for lines and tables: `web-1`. */
export function shortName({ at, facts = NO_FACTS }: FoundSidecar): string {
  const { sidecarFor, proxyId, service } = facts;
  return sidecarFor || proxyId || service || at;
}

/** `near`: the address to try first. */
async function findAdmin(
  wanted: WantedProxy,
  { ask, near }: { readonly ask: AskAdmin; readonly near?: AdminAddress },
): Promise<FoundAdmin> {
  const known = near && await infoOf(near, ask);
  if (near && known && isMeant(wanted, known) && sharesAgent(wanted, known) !== false) {
    return { kind: "found", admin: near };
  }
  const answered = await answering(ask);
  const meant = answered.filter(({ info }) => isMeant(wanted, info));
  const sure = meant.filter(({ info }) => sharesAgent(wanted, info) === true);
  const matches = sure.length > 0
    ? sure
    : meant.filter(({ info }) => sharesAgent(wanted, info) === undefined);
  const [first, second] = matches;
  if (first && !second) return { kind: "found", admin: first.admin };
  const by = wanted.agent ? ` and agent ${wanted.agent.address} (${wanted.agent.said})` : "";
  const named = `of -${wanted.flag} ${wanted.value}${by}`;
  if (first) {
    const each = matches.map(({ info, at }) => `${at} (${detailsOf(info).join(", ")})`);
    const why =
      `${named}: several are: ${each.join("; ")}. Give -http-addr with the agent of the ` +
      "one that is meant, or its admin server as -admin; -admin-bind gives a proxy one of its own";
    return { kind: "missing", why };
  }
  const others = answered.map(({ info, at }) => {
    const { agent } = info.postern.options;
    const of = wanted.agent && agent ? ` (agent ${agent})` : "";
    return `${nameOf(info)} at ${at}${of}`;
  });
  const list = others.length === 0 ? "there are none" : `there is ${others.join(", ")}`;
  const why = `${named}: none of the admin servers on ports ${ADMIN_PORTS.at(0)} to ` +
    `${ADMIN_PORTS.at(-1)} of 127.0.0.1 is its own; ${list}. Start it, or give its -admin-bind, ` +
    "where it has one, as -admin";
  return { kind: "missing", why };
}

/** `undefined`: no agent is wanted, or the proxy does not name its agent. */
function sharesAgent({ agent: wanted }: WantedProxy, { postern }: Info): boolean | undefined {
  const { agent, servers } = postern.options;
  if (!wanted) return undefined;
  // DNS or a program may give further servers: the wanted one may be among them.
  if (servers !== undefined) {
    const host = wanted.address.replace(/:\d+$/, "");
    return servers.split(/[\s,]+/).includes(host) || undefined;
  }
  return agent === undefined ? undefined : agent === wanted.address;
}

function detailsOf({ postern: { pid, trust_domain: domain, options } }: Info): readonly string[] {
  const { agent, servers } = options;
  return [
    ...pid === undefined ? [] : [`process ${pid}`],
    ...agent ? [`agent ${agent}`] : [],
    ...servers ? [`servers ${servers}`] : [],
    domain ? `trust domain ${domain}` : "no certificate yet",
  ];
}

/** Describes another proxy of this id, which binds the same ports. `own`: our admin server. */
export async function findRival(
  proxyId: string,
  { ask, own }: { readonly ask: AskAdmin; readonly own?: AdminAddress | undefined },
): Promise<string | undefined> {
  const wanted: WantedProxy = { flag: "proxy-id", value: proxyId };
  const rivals = (await answering(ask, own)).filter(({ info }) => isMeant(wanted, info))
    .map(({ info, at }) => `${processOf(info)}admin server ${at}`).join("; ");
  return rivals === ""
    ? undefined
    : `another Postern of ${proxyId} runs on this machine (${rivals}) and may have the same ports`;
}

function factsOf({ node, postern: { options } }: Info): SidecarFacts {
  const proxyId = node.id || (options.proxyId ?? "");
  // Agents derive the second id from the first.
  const [, derived = ""] = /^(.+)-sidecar-proxy$/.exec(proxyId) ?? [];
  const { sidecarFor = derived, config = "" } = options;
  return { service: node.cluster, sidecarFor, proxyId, config };
}

/** The admin servers of proxies on this machine, without `own`. */
async function answering(ask: AskAdmin, own?: AdminAddress) {
  const ports = ADMIN_PORTS.filter((port) => own?.host !== HOST || own.port !== port);
  const all = await Promise.all(ports.map(async (port) => {
    const admin = { host: HOST, port };
    const info = await infoOf(admin, ask);
    return info ? [{ info, admin, at: `${HOST}:${port}`, facts: factsOf(info) }] : [];
  }));
  return all.flat();
}

/** Addresses are taken as they are; otherwise those of this machine that answer, by port. */
export async function findSidecars(
  which: WhichSidecars,
  ask: AskAdmin,
): Promise<readonly FoundSidecar[]> {
  if (which.kind === "addresses") {
    return which.admins.map((admin) => ({
      admin,
      at: formatAddress({ ...admin, kind: "tcp" }),
    }));
  }
  const found = await answering(ask);
  if (which.kind === "all") return found;
  return found.filter(({ info }) => which.wanted.some((wanted) => isMeant(wanted, info)));
}

/** Those of addresses are asked for their facts, too. */
export async function describedSidecars(
  which: WhichSidecars,
  ask: AskAdmin,
): Promise<readonly FoundSidecar[]> {
  return await Promise.all((await findSidecars(which, ask)).map(async (found) => {
    if (found.facts) return found;
    const info = await infoOf(found.admin, ask);
    return info ? { ...found, facts: factsOf(info) } : found;
  }));
}

/** The message of a command that shows several sidecars where there is none. */
export function noneFound(which: WhichSidecars): string {
  const what = which.kind === "proxies"
    ? which.wanted.map(({ flag, value }) => `-${flag} ${value}`).join(" or ")
    : "any proxy";
  return `Cannot find ${what}: no admin server on ports 19000 to 19100 of 127.0.0.1 is its own; ` +
    "start it, or give its -admin-bind, where it has one, as -admin";
}

/** Describes the proxy whose admin server has this address; undefined: none answers. */
export async function whoseAdmin(
  address: AdminAddress,
  ask: AskAdmin,
): Promise<string | undefined> {
  const info = await infoOf(address, ask);
  return info && `by another Postern, ${processOf(info)}${nameOf(info)}`;
}

function processOf({ postern }: Info): string {
  return postern.pid === undefined ? "" : `process ${postern.pid}, `;
}

/** `undefined`: no answer, or not the admin server of a proxy. */
async function infoOf(address: AdminAddress, ask: AskAdmin): Promise<Info | undefined> {
  try {
    const { body } = await ask(address, { path: "/server_info", timeoutMs: ASK_TIMEOUT_MS });
    return v.parse(Info, parseJson(body));
  } catch {
    return undefined;
  }
}

function isMeant({ flag, value }: WantedProxy, { node, postern: { options } }: Info): boolean {
  const { sidecarFor = "", proxyId = "", config = "" } = options;
  switch (flag) {
    case "sidecar-for": {
      // Agents derive the second id from the first.
      const sidecar = `${value}-sidecar-proxy`.toLowerCase();
      return sidecarFor.toLowerCase() === value.toLowerCase() ||
        [node.id, proxyId].some((id) => id.toLowerCase() === sidecar);
    }
    case "proxy-id":
      return node.id === value || proxyId === value;
    case "config":
      return config === resolve(value);
  }
}

function nameOf({ node, postern: { options } }: Info): string {
  const { proxyId, config, sidecarFor } = options;
  return config || node.id || proxyId || (sidecarFor ? `the sidecar of ${sidecarFor}` : "a proxy");
}
