/** The other proxies of this machine, for the page at `/`: asked only while somebody looks at it. @module */

import * as v from "valibot";
import type { AdminAddress, AskAdmin, PeerProxy } from "../../admin/mod.ts";
import { type Clock, messageOf } from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import { findSidecars, type FoundSidecar } from "./find_admin.ts";

interface PeersOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly ask: AskAdmin;
  /** Empty: the proxies that are found on this machine. */
  readonly admins: readonly AdminAddress[];
  /** This proxy's own admin server, which is not shown. */
  own(): AdminAddress | undefined;
}

/** Asked again when a page wants them after this. */
const FRESH_MS = 4_000;
/** The ports of this machine are tried again after this. */
const SEARCH_EVERY_MS = 30_000;
const ASK_TIMEOUT_MS = 2_000;
/** From the first byte sent to the last one read. */
const WHOLE_TIMEOUT_MS = 4_000;
/** `/traffic` of a proxy with a full table. */
const LIMIT_BYTES = 1_048_576;
const MAX_PEERS = 32;
const MAX_TROUBLES = 5;
const MAX_CHARS = 300;

const Info = v.object({
  node: v.object({ id: v.string(), cluster: v.string() }),
  postern: v.object({
    version: v.string(),
    /** Absent from earlier versions. */
    identity: v.optional(v.string(), ""),
    options: v.object({ config: v.optional(v.string()), sidecarFor: v.optional(v.string()) }),
  }),
});

const Traffic = v.object({
  recentMs: v.optional(v.number(), 0),
  rows: v.array(v.object({
    direction: v.picklist(["inbound", "outbound"]),
    recent: v.optional(v.object({ requests: v.number(), errors: v.number() })),
  })),
});
const NO_TRAFFIC: v.InferOutput<typeof Traffic> = { recentMs: 0, rows: [] };

/** Resolves to what is known at once, and asks again meanwhile; only the first call waits for answers. */
export function createPeersLook(options: PeersOptions): () => Promise<readonly PeerProxy[]> {
  const { clock, ask, admins, own } = options;
  const once: AskAdmin = (admin, question) =>
    ask(admin, { ...question, signal: AbortSignal.timeout(WHOLE_TIMEOUT_MS) });
  let found: readonly FoundSidecar[] = [];
  let searchedMs = -Infinity;
  let known: readonly PeerProxy[] | undefined;
  let knownMs = -Infinity;
  let running: Promise<readonly PeerProxy[]> | undefined;
  const look = async () => {
    if (clock.monotonic() - searchedMs >= SEARCH_EVERY_MS) {
      searchedMs = clock.monotonic();
      const which = admins.length > 0
        ? { kind: "addresses", admins } as const
        : { kind: "all" } as const;
      found = await findSidecars(which, once);
    }
    const others = found.filter(({ admin }) => !isSame(admin, own())).slice(0, MAX_PEERS);
    const peers = await Promise.all(others.map((one) => peerOf(one, once)));
    knownMs = clock.monotonic();
    return known = peers;
  };
  return async () => {
    if (clock.monotonic() - knownMs >= FRESH_MS) {
      running ??= look().finally(() => running = undefined);
    }
    return known ?? await running ?? [];
  };
}

/** A server on all addresses is found at the loopback address. */
function isSame(admin: AdminAddress, own: AdminAddress | undefined): boolean {
  return own?.port === admin.port &&
    (own.host === admin.host || ["0.0.0.0", "::", "[::]"].includes(own.host));
}

async function peerOf({ admin, at }: FoundSidecar, ask: AskAdmin): Promise<PeerProxy> {
  const read = async (path: string) =>
    (await ask(admin, { path, timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES })).body;
  try {
    const [info, ready, traffic] = await Promise.all([
      read("/server_info").then((body) => v.parse(Info, parseJson(body))),
      read("/ready"),
      // A proxy of an earlier version has no such page.
      read("/traffic").then((body) => v.parse(Traffic, parseJson(body))).catch(() => NO_TRAFFIC),
    ]);
    const { node, postern } = info;
    const [name = "", ...lines] = ready.trimEnd().split("\n");
    return {
      address: at,
      service: short(node.cluster || (postern.options.sidecarFor ?? "")),
      proxyId: short(node.id || (postern.options.config ?? "")),
      identity: short(postern.identity),
      version: short(postern.version),
      state: STATES[name] ?? "not ready",
      troubles: lines.slice(0, MAX_TROUBLES).map((line) => short(line.replace(/^warning: /, ""))),
      ...ratesOf(traffic),
    };
  } catch (error) {
    return { ...NO_ANSWER, address: at, troubles: [short(whyNot(error))] };
  }
}

const STATES: Readonly<Record<string, PeerProxy["state"]>> = {
  LIVE: "ready",
  DRAINING: "draining",
  PRE_INITIALIZING: "starting",
};

const NO_ANSWER: Omit<PeerProxy, "address" | "troubles"> = {
  service: "",
  proxyId: "",
  identity: "",
  version: "",
  state: "no answer",
  perSecond: 0,
  errorShare: 0,
};

/** Requests of both directions together. */
function ratesOf(
  { recentMs, rows }: v.InferOutput<typeof Traffic>,
): Pick<PeerProxy, "perSecond" | "errorShare"> {
  const sum = (part: "requests" | "errors") =>
    rows.reduce((total, { recent }) => total + Math.max(0, recent?.[part] ?? 0), 0);
  const requests = sum("requests");
  return {
    perSecond: recentMs > 0 ? requests * 1_000 / recentMs : 0,
    errorShare: requests > 0 ? Math.min(1, sum("errors") / requests) : 0,
  };
}

/** Another program may have chosen the text. */
function short(text: string): string {
  return text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}...` : text;
}

function whyNot(error: unknown): string {
  if (v.isValiError(error) || error instanceof SyntaxError) return "it is not a proxy of this kind";
  return error instanceof Error && /abort|timed? ?out/i.test(`${error.name} ${error.message}`)
    ? "no answer in time"
    : messageOf(error);
}
