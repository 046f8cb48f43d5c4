/** The running proxy that `postern doctor` looks at: what its admin server says. @module */

import * as v from "valibot";
import type { AdminAddress, AskAdmin } from "../../../admin/mod.ts";
import { messageOf, ProxyError } from "../../../base/mod.ts";
import { parseJson } from "../../../wire/mod.ts";
import { findSidecars, type FoundSidecar } from "../../process/find_admin.ts";
import { readReady } from "../live/run_status.ts";
import { countOf, type DoctorFinding, findingsOf, orOk } from "./finding.ts";

const ASK_TIMEOUT_MS = 5_000;
const LIMIT_BYTES = 4 * 1_048_576;

const Info = v.object({
  node: v.object({ id: v.string() }),
  postern: v.object({
    pid: v.optional(v.number()),
    trust_domain: v.optional(v.string(), ""),
    options: v.object({
      sidecarFor: v.optional(v.string(), ""),
      proxyId: v.optional(v.string(), ""),
      config: v.optional(v.string(), ""),
      agent: v.optional(v.string(), ""),
      servers: v.optional(v.string(), ""),
    }),
    limits: v.object({
      open_files: v.union([v.number(), v.string()]),
      max_connections: v.number(),
    }),
  }),
});
const Listeners = v.object({
  listeners: v.array(v.object({
    name: v.string(),
    address: v.string(),
    state: v.string(),
    error: v.string(),
    fault: v.string(),
  })),
});
const Certs = v.object({
  certificates: v.array(v.object({
    name: v.string(),
    renewal: v.optional(v.object({ works: v.boolean(), text: v.string() })),
  })),
});
type CertificateRow = v.InferOutput<typeof Certs>["certificates"][number];
type ListenerRow = v.InferOutput<typeof Listeners>["listeners"][number];

export interface ExaminedProxy {
  readonly at: string;
  readonly info: v.InferOutput<typeof Info>;
  readonly ready: ReturnType<typeof readReady>;
  readonly listeners: readonly ListenerRow[];
  readonly certificates: readonly CertificateRow[];
}

/** Rejects where no proxy answers at the address. */
export async function readRunning(
  { admin, at }: FoundSidecar,
  ask: AskAdmin,
): Promise<ExaminedProxy> {
  const read = async (path: string) =>
    (await ask(admin, { path, timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES })).body;
  const [info, ready, listeners, { certificates }] = await Promise.all([
    read("/server_info").then((body) => v.parse(Info, parseJson(body))),
    read("/ready?format=postern").then(readReady),
    listenersOf(admin, ask),
    read("/certs").then((body) => v.parse(Certs, parseJson(body))),
  ]);
  return { at, info, ready, listeners, certificates };
}

async function listenersOf(admin: AdminAddress, ask: AskAdmin): Promise<readonly ListenerRow[]> {
  const path = "/listeners?format=postern";
  const { body } = await ask(admin, { path, timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES });
  return v.parse(Listeners, parseJson(body)).listeners;
}

/** Names the sidecar of this machine that listens on an address. */
export async function listenerOwners(
  ask: AskAdmin,
): Promise<(address: string) => string | undefined> {
  const owners = new Map<string, string>();
  await Promise.all((await findSidecars({ kind: "all" }, ask)).map(async (found) => {
    try {
      const { info, listeners } = await readRunning(found, ask);
      const who = `the Postern of ${info.node.id || info.postern.options.config} (${
        info.postern.pid === undefined ? "" : `process ${info.postern.pid}, `
      }admin server ${found.at})`;
      for (const { address, state } of listeners) {
        if (state === "listening") owners.set(address, who);
      }
    } catch {
      // A sidecar that ends meanwhile has no listeners.
    }
  }));
  return (address) => owners.get(address);
}

/** Readiness and listeners. `known`: what other checks have found. */
export function checkRunning(
  running: ExaminedProxy | undefined,
  known: readonly DoctorFinding[],
): readonly DoctorFinding[] {
  const { failure, warning, ok } = findingsOf("running");
  if (!running) {
    return [warning({
      what: "no proxy of these flags runs on this machine, or its admin server is off",
      why: "what its connections meet is not known here",
      fix: "start it, or give its address as -admin",
    })];
  }
  const { at, ready: { state, reasons, troubles }, listeners } = running;
  // Another check found the same in Consul's configuration.
  const isNews = (text: string) =>
    !known.some(({ what }) =>
      what.includes(text) || what.replace(" is refused: ", ": ") === text || isByDenial(text, what)
    );
  const fixOf = (text: string) => {
    const [, upstream] = /^upstream ([^\s:]+)/.exec(text) ?? [];
    const events = `see what changed: postern events -admin ${at} -since 10m`;
    return upstream ? `${events}; and the cause: postern explain -admin ${at} ${upstream}` : events;
  };
  const stays = reasons.length === 0
    ? "the proxy is ready all the same: callers choose it"
    : "the proxy has this fault, too";
  const stated = [
    ...reasons.filter(isNews).map((what) =>
      failure({
        what,
        why: `the proxy is not ready (${state}): callers do not choose it`,
        fix: fixOf(what),
      })
    ),
    ...troubles.filter(({ text }) => isNews(text)).map(({ text: what, stopsTraffic }) =>
      stopsTraffic
        ? failure({ what, why: "a part of its traffic fails", fix: fixOf(what) })
        : warning({ what, why: stays, fix: fixOf(what) })
    ),
  ];
  const unbound = listeners.filter(({ state, error }) => state === "failed" && isNews(error))
    .filter(({ error }) =>
      ![...reasons, ...troubles.map(({ text }) => text)].some((text) => text.includes(error))
    )
    .map(({ name, error, address }) =>
      failure({
        what: `listener ${name} is not bound to ${address}: ${error}`,
        why: "it carries no traffic",
        fix: "free the port, or change it in the registration",
      })
    );
  return orOk(
    [...stated, ...unbound],
    ok(`${state}, ${countOf(listeners.length, "listener")}, admin server ${at}`),
  );
}

/** Whether the running proxy says what follows from the denial that `what` names: `db denies web: ...`. */
function isByDenial(text: string, what: string): boolean {
  const [, callee = "", caller] = /^(\S+) denies (\S+): /.exec(what) ?? [];
  if (caller === undefined) return false;
  const isRefused = /\b(?:intention_denied|refused_by_peer)\b/.test(text);
  return isRefused && [
    `${callee} refuses ${caller} (`,
    `${callee} probably refuses ${caller}: `,
    `upstream ${callee} keeps failing`,
    // A while ago.
    `upstream ${callee}: the last`,
  ].some((start) => text.startsWith(start));
}

/** Whether a renewal of its certificates would work now, and when it is due. */
export function checkRenewal(running: ExaminedProxy | undefined): readonly DoctorFinding[] {
  const { warning, ok } = findingsOf("renewal");
  return (running?.certificates ?? []).flatMap(({ name, renewal }) => {
    if (!renewal) return [];
    const what = `certificate ${name}: ${renewal.text}`;
    if (renewal.works) return [ok(what)];
    return [warning({
      what,
      why: "handshakes fail once the certificate has expired",
      fix: "remove the cause that it names; the renewal is tried again by itself",
    })];
  });
}

/** Its certificate belongs to the mesh that Consul has now. */
export function checkSameMesh(
  running: ExaminedProxy | undefined,
  trustDomain: string,
): readonly DoctorFinding[] {
  const own = running?.info.postern.trust_domain ?? "";
  if (own === "" || trustDomain === "" || own === trustDomain) return [];
  return [
    findingsOf("certificates").failure({
      what: `the running proxy is of trust domain ${own}, and Consul has ${trustDomain}`,
      why: "the cluster was made anew: no other proxy accepts this one",
      fix: "restart the proxy, with an empty -state-dir where it has one",
    }),
  ];
}

/**
 * The flags of `postern proxy` that a running one was started with. Its agent's address has no scheme, so
 * `ownAgent`, the same address by the environment, stays.
 */
export function flagsOfRunning({ info, at }: ExaminedProxy, ownAgent: string): readonly string[] {
  const { config, proxyId, sidecarFor, agent } = info.postern.options;
  if (config !== "") return ["-config", config];
  const id = info.node.id || proxyId;
  const who = id !== "" ? ["-proxy-id", id] : ["-sidecar-for", sidecarFor];
  if (who[1] === "") {
    throw new ProxyError("usage", `Cannot tell which proxy is at ${at}: give its flags`);
  }
  return [...who, ...agent === "" || agent === ownAgent ? [] : ["-http-addr", agent]];
}

export function whyUnread(error: unknown): string {
  return v.isValiError(error) || error instanceof SyntaxError
    ? "another program than a proxy answers there"
    : messageOf(error);
}
