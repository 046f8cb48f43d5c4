/**
 * Checks the predictions of `explain` against the request's outcome: it must be one that both proxies on
 * its way, where they are Posterns, predicted as possible.
 *
 * @module
 */

import { grpcStatusOf } from "../../src/http/mod.ts";
import type { WrittenRequest } from "../kit/wire/send_request.ts";
import { LIMITED } from "../kit/mesh/mixed_mesh.ts";
import type { Postern } from "../kit/process/postern.ts";

/** The parameters of a proxy's `/explain` besides the request itself. */
export interface Explainer {
  readonly sidecar: Postern;
  readonly query: Readonly<Record<string, string>>;
}

/** The proxies on a request's way; one that is missing is no Postern. */
export interface Explainers {
  readonly caller?: Explainer;
  readonly callee?: Explainer;
  /** The callee's proxy, by the service that the caller's proxy predicts. */
  calleeOf?(service: string): Explainer | undefined;
}

/** One request as it went. */
export interface Went {
  /** 0: no response. */
  readonly status: number;
  readonly grpcStatus: number | undefined;
  /** The instance that answered, where its response names it. */
  readonly from: string | undefined;
  /** `GET /path` of each try as the application saw it. */
  readonly tries: readonly string[];
}

interface Sent {
  readonly method: string;
  readonly path: string;
}

interface OwnAnswer {
  readonly status: number;
  readonly grpcStatus: number | null;
  readonly reason: string;
}

interface Shown {
  readonly answer: OwnAnswer | null;
  readonly local: { readonly sent: Sent | null } | null;
  readonly splits: readonly {
    readonly answer: OwnAnswer | null;
    readonly sent: Sent | null;
    readonly targets: readonly {
      readonly endpoints: readonly { readonly id: string; readonly unreachable: string | null }[];
      readonly callee: {
        readonly service: string;
        readonly verdict: "allow" | "deny" | "unknown";
        readonly status: number;
        readonly path: string | null;
        readonly reason: string;
      } | null;
    }[];
  }[];
}

/** How a request may end: answered by a proxy, or with an application that sees it so. */
type End =
  | { readonly kind: "answered"; readonly by: string; readonly answer: OwnAnswer }
  | {
    readonly kind: "sent";
    readonly sent: Sent | null;
    readonly instances: readonly string[];
    /** The proxies behind predict as well: a gap in this prediction is theirs to fill. */
    readonly isSure: boolean;
  };

const SWITCHING = [
  "connection: Upgrade",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];
/** More is not read of the line of a request to an admin server. */
const QUESTION_LIMIT_CHARS = 12_000;

const NO_REQUEST = "Cannot explain: ";

/** Why the request cannot be put to `explain`; `undefined`: it can. */
export function whyUnasked(
  { version = "HTTP/1.1", path, fields }: WrittenRequest,
): string | undefined {
  if (!/^HTTP\/1\.[01]$/.test(version)) return "explain knows no other version of HTTP";
  const chars = [path, ...fields].reduce((sum, { length }) => sum + length, 0);
  return chars > QUESTION_LIMIT_CHARS ? "the admin server takes no such question" : undefined;
}

export class Predictions {
  readonly #ends: readonly End[];
  readonly #callee: readonly End[] | undefined;

  private constructor(ends: readonly End[], callee: readonly End[] | undefined) {
    this.#ends = ends;
    this.#callee = callee;
  }

  /** To be made before the request is sent. */
  static async of(
    { caller, callee, calleeOf }: Explainers,
    ask: WrittenRequest,
  ): Promise<Predictions> {
    if (!caller) return new Predictions([], callee && await endsBy(callee, ask));
    const ends = await endsBy(caller, ask, calleeOf);
    return new Predictions(ends, undefined);
  }

  /** The part of `went` that was not predicted; `undefined`: all was. */
  whyNot(went: Went): string | undefined {
    const ends = this.#ends;
    if (ends.length > 0) return matches(ends, went) ? undefined : mismatch(ends, went);
    const callee = this.#callee;
    // An Envoy before it may have answered, or sent on something else.
    if (!callee || went.tries.length === 0 && went.status !== 403) return undefined;
    if (callee.some((end) => end.kind === "answered" && end.answer.reason.startsWith(NO_REQUEST))) {
      return undefined;
    }
    return matches(callee, went) ? undefined : mismatch(callee, went);
  }
}

async function endsBy(
  explainer: Explainer,
  ask: WrittenRequest,
  calleeOf?: (service: string) => Explainer | undefined,
): Promise<readonly End[]> {
  const by = "listener" in explainer.query || "source" in explainer.query ? "callee" : "caller";
  const shown = await explained(explainer, ask);
  if (!("splits" in shown)) return [{ kind: "answered", by, answer: shown }];
  const { answer, local, splits } = shown;
  if (answer) return [{ kind: "answered", by, answer }];
  if (local) return [{ kind: "sent", sent: local.sent, instances: [], isSure: true }];
  const ends: End[] = [];
  for (const split of splits) {
    if (split.answer) {
      ends.push({ kind: "answered", by, answer: split.answer });
      continue;
    }
    for (const { callee, endpoints } of split.targets) {
      const instances = endpoints.filter(({ unreachable }) => unreachable === "")
        .map(({ id }) => id);
      if (instances.length === 0) continue;
      const next = callee && calleeOf?.(callee.service);
      if (callee?.verdict === "deny") {
        const { status, reason } = callee;
        const answer = { status, grpcStatus: grpcStatusOf(status), reason };
        ends.push({ kind: "answered", by: "caller, of its callee", answer });
      }
      const { sent } = split;
      if (next) {
        ends.push(...await endsBehind(next, ask, { sent, isDenied: callee?.verdict === "deny" }));
      } else if (callee?.verdict !== "deny") {
        // A proxy behind that is no Postern reads paths in the same way.
        const path = callee?.path ?? sent?.path;
        const seen = sent && path !== undefined && isProxied(callee?.service)
          ? { ...sent, path }
          : sent;
        ends.push({ kind: "sent", sent: seen, instances, isSure: false });
      }
    }
  }
  return ends;
}

/** Services without a proxy take a path as it comes. */
function isProxied(service = ""): boolean {
  return /-(envoy|postern)$/.test(service) && !LIMITED.some((name) => service.startsWith(name));
}

/**
 * The prediction of the callee's own proxy about the request sent to it; it must not let in what was
 * predicted to be denied.
 */
async function endsBehind(
  callee: Explainer,
  ask: WrittenRequest,
  { sent, isDenied }: { readonly sent: Sent | null; readonly isDenied: boolean },
): Promise<readonly End[]> {
  const ends = await endsBy(callee, { ...ask, ...sent });
  const letsIn = ends.some(({ kind }) => kind === "sent");
  if (
    letsIn === isDenied && !ends.some((end) => end.kind === "answered" && end.answer.status === 503)
  ) {
    const reason = `the callee's own proxy ${letsIn ? "lets it in" : "does not let it in"}`;
    const answer = { status: -1, grpcStatus: null, reason };
    return [{ kind: "answered", by: "disagreement", answer }];
  }
  return ends;
}

async function explained(
  { sidecar, query }: Explainer,
  ask: WrittenRequest,
): Promise<Shown | OwnAnswer> {
  const { method, path, fields, body, streamed, upgrade } = ask;
  const length = streamed
    ? ["transfer-encoding: chunked"]
    : body !== "" || method === "POST"
    ? [`content-length: ${body.length}`]
    : [];
  const words = new URLSearchParams({ ...query, method, path });
  const { host = "app.test" } = ask;
  if (host === null) words.set("host", "");
  const all = [...host === null ? [] : [`host: ${host}`], ...fields, ...length];
  for (const field of [...all, ...(upgrade ? SWITCHING : [])]) words.append("header", field);
  const { status, body: text } = await sidecar.admin(`/explain?${words}`);
  // It is no request that `explain` takes; `reason` begins with NO_REQUEST.
  if (status === 400) return { status: 400, grpcStatus: null, reason: text.trim() };
  if (status !== 200) throw new Error(`/explain?${words}: ${status} ${text}`);
  return JSON.parse(text);
}

function matches(ends: readonly End[], went: Went): boolean {
  const { status, grpcStatus, from, tries } = went;
  return ends.some((end) => {
    if (end.kind === "answered") {
      const { answer } = end;
      if (tries.length > 0) return false;
      // Over HTTP/2 the stream of an invalid request is reset.
      if (status === 0) return answer.status === 400;
      return grpcStatus === undefined
        ? answer.status === status
        : answer.grpcStatus === grpcStatus && status === 200;
    }
    if (tries.length === 0) return !end.isSure;
    const { sent, instances } = end;
    if (sent && tries.some((first) => first !== `${sent.method} ${sent.path}`)) return false;
    return from === undefined || instances.length === 0 ||
      instances.some((id) => id.endsWith(`-${from}`));
  });
}

function mismatch(ends: readonly End[], { status, grpcStatus, from, tries }: Went): string {
  const said = ends.map((end) => {
    if (end.kind === "sent") {
      return `sent as ${end.sent?.method} ${end.sent?.path} to ${end.instances.join(" ")}`;
    }
    const { answer, by } = end;
    return `${answer.status} (gRPC ${answer.grpcStatus}) by the ${by}: ${answer.reason}`;
  });
  const grpc = grpcStatus === undefined ? "" : ` (gRPC ${grpcStatus})`;
  return `was ${status}${grpc} from ${from} after ${JSON.stringify(tries)}, and said was ${
    JSON.stringify(said)
  }`;
}
