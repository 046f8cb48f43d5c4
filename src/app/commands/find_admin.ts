/**
 * Which admin server on this machine belongs to a proxy: those who bind none by themselves take the
 * first free port of a range, and each says for what its proxy was started.
 *
 * @module
 */

import { resolve } from "node:path";
import * as v from "valibot";
import { ADMIN_PORTS, type AdminPlace, type AskAdmin } from "../../admin/mod.ts";
import type { Address } from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import type { ProxyMode } from "../command_line/args_proxy.ts";

/** What a proxy was started for, as the flags of `postern proxy` say it. */
export interface WantedProxy {
  readonly flag: "sidecar-for" | "proxy-id" | "config";
  readonly value: string;
}

/** A running proxy that a command asks: by its admin server, or by what it was started for. */
export type WhichProxy =
  | { readonly kind: "address"; readonly admin: Extract<Address, { kind: "tcp" }> }
  | { readonly kind: "proxy"; readonly wanted: WantedProxy };

export type FoundAdmin =
  | { readonly kind: "found"; readonly admin: AdminPlace }
  | {
    readonly kind: "missing";
    readonly wanted: WantedProxy;
    /** For people: whose the admin servers are that answered. */
    readonly others: readonly string[];
  };

const ASK_TIMEOUT_MS = 2_000;
const HOST = "127.0.0.1";

const Info = v.object({
  node: v.object({ id: v.string() }),
  postern: v.object({
    pid: v.optional(v.number()),
    options: v.object({
      sidecarFor: v.optional(v.string()),
      proxyId: v.optional(v.string()),
      config: v.optional(v.string()),
    }),
  }),
});
type Info = v.InferOutput<typeof Info>;

/** What `/server_info` shows of it. */
export function shownMode(
  mode: ProxyMode,
  proxyId: string,
): Readonly<Record<string, string>> {
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

/** Where it is; an address is taken as it is. */
export function findProxy(
  which: WhichProxy,
  options: { readonly ask: AskAdmin; readonly near?: AdminPlace },
): Promise<FoundAdmin> {
  if (which.kind === "proxy") return findAdmin(which.wanted, options);
  return Promise.resolve({ kind: "found", admin: which.admin });
}

/** To continue "the proxy". */
export function whyMissing({ flag, value }: WantedProxy, others: readonly string[]): string {
  const there = others.length === 0 ? "there are none" : `there is ${others.join(", ")}`;
  return `of -${flag} ${value}: none of the admin servers on ports ${ADMIN_PORTS.at(0)} to ` +
    `${ADMIN_PORTS.at(-1)} of 127.0.0.1 is its own; ${there}. Start it, or give its -admin-bind, ` +
    "where it has one, as -admin";
}

/** `near`: asked first. */
export async function findAdmin(
  wanted: WantedProxy,
  { ask, near }: { readonly ask: AskAdmin; readonly near?: AdminPlace },
): Promise<FoundAdmin> {
  const known = near && await infoOf(near, ask);
  if (near && known && isMeant(wanted, known)) return { kind: "found", admin: near };
  const places = ADMIN_PORTS.map((port) => ({ host: HOST, port }));
  const infos = await Promise.all(places.map((place) => infoOf(place, ask)));
  const at = infos.findIndex((info) => info && isMeant(wanted, info));
  const admin = places[at];
  if (admin) return { kind: "found", admin };
  const others = infos.flatMap((info, index) =>
    info ? [`${nameOf(info)} at ${HOST}:${places[index]?.port}`] : []
  );
  return { kind: "missing", wanted, others };
}

/**
 * Another proxy on this machine that is `proxyId`, in words: two of one id want the same ports. `own`: our
 * admin server, where there is one.
 */
export async function findRival(
  proxyId: string,
  { ask, own }: { readonly ask: AskAdmin; readonly own?: AdminPlace | undefined },
): Promise<string | undefined> {
  const wanted: WantedProxy = { flag: "proxy-id", value: proxyId };
  const isOwn = ({ host, port }: AdminPlace) => own?.host === host && own.port === port;
  const places = ADMIN_PORTS.map((port) => ({ host: HOST, port })).filter((at) => !isOwn(at));
  const found = await Promise.all(places.map(async (place) => {
    const info = await infoOf(place, ask);
    return info && isMeant(wanted, info)
      ? [`${processOf(info)}admin server ${HOST}:${place.port}`]
      : [];
  }));
  const rivals = found.flat();
  return rivals.length === 0
    ? undefined
    : `another Postern of ${proxyId} runs on this machine (${
      rivals.join("; ")
    }) and may have the ` +
      "same ports";
}

/** Which proxy has this address for its admin server, in words; undefined: none that answers. */
export async function whoseAdmin(place: AdminPlace, ask: AskAdmin): Promise<string | undefined> {
  const info = await infoOf(place, ask);
  return info && `by another Postern, ${processOf(info)}${nameOf(info)}`;
}

function processOf({ postern }: Info): string {
  return postern.pid === undefined ? "" : `process ${postern.pid}, `;
}

/** Undefined: nobody answers there, or it is no admin server of a proxy. */
async function infoOf(place: AdminPlace, ask: AskAdmin): Promise<Info | undefined> {
  try {
    const { body } = await ask(place, { path: "/server_info", timeoutMs: ASK_TIMEOUT_MS });
    return v.parse(Info, parseJson(body));
  } catch {
    // Whatever it is, it is not the one that is looked for.
    return undefined;
  }
}

function isMeant({ flag, value }: WantedProxy, { node, postern: { options } }: Info): boolean {
  const { sidecarFor = "", proxyId = "", config = "" } = options;
  switch (flag) {
    case "sidecar-for": {
      // The second is what agents call it.
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
