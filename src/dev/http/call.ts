/**
 * One request on its way through the agent: what every endpoint gets, and the replies that Consul's
 * endpoints have in common (headers of a blocking query, JSON the way Go writes it).
 *
 * @module
 */

import type { Clock, Random } from "../../base/mod.ts";
import { type Acl, type Authorizer, TOKEN_UNKNOWN } from "../acl/acl.ts";
import type { AuthMethods } from "../acl/auth_methods.ts";
import { block, type BlockOptions, blockOptions, type Read } from "./blocking.ts";
import type { Ca } from "../ca/ca.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ConfigEntries } from "../entries/config_entries.ts";
import { DecodeError, decodeObject, type JsonObject, type Shape } from "./decode.ts";
import type { DevReply, DevRequest } from "./dev_exchange.ts";
import type { LocalServices } from "../catalog/local_services.ts";
import type { PreparedQueries } from "../entries/prepared_queries.ts";
import { Refusal } from "./refusal.ts";
import type { Sessions } from "../catalog/sessions.ts";
import type { Store } from "../catalog/store.ts";

/** Everything the agent knows; replaced as a whole when it forgets. */
export interface State {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly config: ConfigEntries;
  readonly services: LocalServices;
  readonly ca: Ca;
  readonly acl: Acl;
  readonly methods: AuthMethods;
  readonly queries: PreparedQueries;
  readonly sessions: Sessions;
  /** Targets that were asked about, for `X-Cache`. */
  readonly authorized: Set<string>;
}

export interface World {
  readonly datacenter: string;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly defaultIntentionPolicy: "allow" | "deny" | undefined;
  readonly asClientAgent: boolean;
  /** How this server stands to the one that leads; absent: it leads. */
  readonly standing?: () => Standing;
  readonly state: State;
}

/** What stale reads tell of the leader. */
export interface Standing {
  readonly knownLeader: boolean;
  readonly lastContactMs: number;
}

export interface Call {
  readonly world: World;
  readonly state: State;
  readonly request: DevRequest;
  readonly query: URLSearchParams;
  /** Parts of the path, decoded. */
  readonly params: readonly string[];
  readonly blocking: BlockOptions;
  /** The datacenter asked about. */
  readonly datacenter: string;
  /** What the sender may do; throws 403 for a token that nobody knows. */
  authorizer(): Authorizer;
  readonly tokenKnown: boolean;
}

export type Handler = (call: Call) => DevReply | Promise<DevReply>;

export interface Route {
  readonly method: string;
  /** Groups become `params`. */
  readonly path: RegExp;
  readonly handle: Handler;
}

/** Reads the parts of a request that mean the same on every endpoint; 400 where Consul says so. */
export function openCall(world: World, request: DevRequest, params: readonly string[]): Call {
  const { query } = request;
  const has = (name: string) => query.has(name);
  for (
    const [name, feature] of [["ns", "Namespaces are"], ["partition", "Partitions are"]] as const
  ) {
    const value = query.get(name) ?? "";
    if (value !== "") {
      throw new Refusal(
        400,
        `Invalid query parameter: "${name}" - ${feature} a Consul Enterprise feature`,
      );
    }
    const header = name === "ns" ? "X-Consul-Namespace" : "X-Consul-Partition";
    if ((request.headers.get(header.toLowerCase()) ?? "") !== "") {
      throw new Refusal(
        400,
        `Invalid header: "${header}" - ${feature} a Consul Enterprise feature`,
      );
    }
  }
  for (const first of ["stale", "cached"]) {
    if (has(first) && has("consistent")) {
      throw new Refusal(400, `Cannot specify ?${first} with ?consistent, conflicting semantics.`);
    }
  }
  const { state } = world;
  const authorizer = state.acl.authorizer(tokenOf(request));
  return {
    world,
    state,
    request,
    query,
    params,
    blocking: blockOptions(query),
    datacenter: query.get("dc") || world.datacenter,
    tokenKnown: authorizer !== undefined,
    authorizer() {
      if (!authorizer) throw new Refusal(403, TOKEN_UNKNOWN);
      return authorizer;
    },
  };
}

/** 500 for a datacenter that nobody has heard of. */
export function requireDatacenter(call: Call): void {
  if (call.datacenter === call.world.datacenter) return;
  throw new Refusal(500, "No path to datacenter");
}

/** Waits as the request's `index` and `wait` say. */
export function blockCall<T>(call: Call, read: () => Read<T>, exact = false): Promise<Read<T>> {
  const { clock, random } = call.world;
  return block(
    { store: call.state.store, clock, random },
    call.request,
    call.blocking,
    read,
    exact,
  );
}

export interface MetaOptions {
  readonly streaming?: boolean;
  readonly consistency?: boolean;
  readonly filtered?: boolean;
}

/** Headers of an answer that has an index. */
export function metaHeaders(
  call: Call,
  index: number,
  options: MetaOptions = {},
): Record<string, string> {
  const streaming = options.streaming === true;
  const mode = call.query.has("stale")
    ? "stale"
    : call.query.has("consistent")
    ? "consistent"
    : "leader";
  const { knownLeader, lastContactMs } = mode === "stale" && call.world.standing?.() ||
    { knownLeader: true, lastContactMs: 0 };
  return {
    ...options.consistency === false ? {} : { "X-Consul-Effective-Consistency": mode },
    "X-Consul-Index": String(index),
    "X-Consul-Knownleader": String(!streaming && knownLeader),
    "X-Consul-Lastcontact": String(lastContactMs),
    "X-Consul-Query-Backend": streaming ? "streaming" : "blocking-query",
    ...options.filtered ? { "X-Consul-Results-Filtered-By-Acls": "true" } : {},
  };
}

/** Headers that some endpoints put on their refusals: never an index to go on from. */
export const REFUSED_META: Readonly<Record<string, string>> = {
  "X-Consul-Index": "1",
  "X-Consul-Knownleader": "false",
  "X-Consul-Lastcontact": "0",
  "X-Consul-Query-Backend": "blocking-query",
};

/** Runs `fn`; its refusals get {@link REFUSED_META}. */
export function withMeta<T>(fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal(error.status, error.message, { ...REFUSED_META, ...error.headers });
  }
}

export function json(
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
  status = 200,
): DevReply {
  return {
    status,
    headers: { "Content-Type": "application/json", ...headers },
    body: goJson(body),
  };
}

export function empty(): DevReply {
  return { status: 200, headers: { "Content-Type": "application/json; charset=utf-8" }, body: "" };
}

export function refused(refusal: Refusal): DevReply {
  return {
    status: refusal.status,
    headers: { "Content-Type": "text/plain; charset=utf-8", ...refusal.headers },
    body: refusal.message,
  };
}

/** The body, decoded; 400 `Request decode failed: ...` where it does not fit. */
export function readBody(call: Call, shape: Shape): JsonObject {
  try {
    return decodeObject(new TextDecoder().decode(call.request.body), shape);
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    throw new Refusal(400, `Request decode failed: ${error.message}`);
  }
}

/** JSON as Go's encoder writes it. */
export function goJson(value: unknown): string {
  const escapes: Readonly<Record<string, string>> = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
  };
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (char) => escapes[char] ?? char);
}

function tokenOf(request: DevRequest): string {
  const bearer = /^Bearer\s+(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
  return request.query.get("token") || request.headers.get("x-consul-token") || bearer;
}
