/** Calls to Consul's HTTP API: token, query, JSON, and failures as codes. @module */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { type ErrorCode, ProxyError, type Stats } from "../../base/mod.ts";
import { jsonCost, locateJsonError } from "../../wire/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../model/flag_names.ts";
import type { Carrier, ConsulCall, WireReply } from "./carrier.ts";
import type { ClusterProof } from "./cluster.ts";
import type { AgentOptions } from "./options.ts";
import { isUnknownToken, refusalOf } from "./refusals.ts";
import type { CallToken } from "./token.ts";

/** Far more than a sidecar's largest reply; a reply beyond it is refused, not kept. */
const REPLY_LIMIT_BYTES = 8 << 20;

export interface ConsulReply {
  readonly status: number;
  /** `X-Consul-Index`, 0 read as 1; absent where the reply has none. */
  readonly index?: number;
  readonly contentHash: string;
  /** `X-Consul-Results-Filtered-By-Acls`: missing items may be forbidden rather than absent. */
  readonly filteredByAcls: boolean;
  /** `X-Consul-Default-Acl-Policy`: the answering node's `acl.default_policy`, ACLs enabled or not. */
  readonly defaultAclPolicy: string;
  /** Digest of the body, where {@link ConsulCall.lastDigest} was given. */
  readonly digest?: string;
  /** The body is the same as before; `json` is undefined. */
  readonly isSame?: boolean;
  readonly json: unknown;
}

/** Parts of every request; empty text means nothing. */
interface ClientOptions extends
  Pick<
    AgentOptions,
    "pathPrefix" | "basicAuth" | "datacenter" | "stale" | "namespace" | "partition"
  > {
  /** For messages; absent: those of `postern proxy`. */
  readonly names?: FlagNames;
}

interface ClientDeps {
  readonly carrier: Carrier;
  readonly token: CallToken;
  readonly stats: Stats;
  /** Absent: the cluster that answers is not proved. */
  readonly proof?: Pick<ClusterProof, "confirm" | "doubt">;
  /** Called with each failure, unless we gave up. */
  readonly onFailure?: (code: ErrorCode) => void;
  /** Called with the time since a server heard of its leader (`X-Consul-LastContact`). */
  readonly onSilence?: (silenceMs: number) => void;
}

export class Client {
  readonly options: ClientOptions;
  readonly carrier: Carrier;
  /** Header `Date` of the newest reply; `""`: there is none. */
  lastDate = "";
  readonly #deps: ClientDeps;

  constructor(options: ClientOptions, deps: ClientDeps) {
    this.options = options;
    this.carrier = deps.carrier;
    this.#deps = deps;
  }

  get names(): FlagNames {
    return this.options.names ?? PROXY_FLAGS;
  }

  get hasToken(): boolean {
    return this.#deps.token.current() !== "";
  }

  async call(call: ConsulCall): Promise<ConsulReply> {
    const { coming } = this.#deps.token;
    if (coming) await coming;
    const token = this.#deps.token.current();
    const help =
      "HTTP requests to the agent or the servers under way, those that wait for a change included";
    const active = this.#deps.stats.gauge("agent_requests_active", help);
    active.add(1);
    try {
      // A write must not reach another cluster.
      if (call.method === "PUT") await this.#deps.proof?.confirm();
      const wire = await this.#send(call, token);
      this.lastDate = wire.headers["date"] ?? "";
      if (!call.provesCluster) await this.#confirm(call, wire);
      if (isUnknownToken(wire)) this.#deps.token.rejected(token);
      const reply = this.#read(call, wire, token);
      this.#count(call, "ok");
      return reply;
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      // An abort is our own decision, and no failure of Consul.
      if (code === "closed") throw error;
      this.#count(call, code);
      if (code === "agent_unreachable" || code === "agent_failed") this.#deps.proof?.doubt();
      this.#deps.onFailure?.(code);
      throw error;
    } finally {
      active.add(-1);
    }
  }

  /** A refusal is an answer, too: it must not be that of another cluster. */
  async #confirm(call: ConsulCall, wire: WireReply): Promise<void> {
    const { status, headers } = wire;
    if (status === 429 || status >= 500) return;
    const before = readIndex(call.query?.["index"]);
    const index = readIndex(headers["x-consul-index"]);
    if (before !== undefined && index !== undefined && index < before) this.#deps.proof?.doubt();
    // Behind an agent other servers may answer from one reply to the next, and no connection breaks.
    const isNews = this.carrier.peer === "agent" && call.lastDigest !== undefined &&
      call.lastDigest !== digestOf(wire);
    await this.#deps.proof?.confirm({ isNews });
  }

  #send(call: ConsulCall, token: string): Promise<WireReply> {
    const { pathPrefix, basicAuth } = this.options;
    const headers: Record<string, string> = { accept: "application/json" };
    if (token) headers["x-consul-token"] = token;
    if (basicAuth) headers.authorization = `Basic ${Buffer.from(basicAuth).toString("base64")}`;
    const method = call.method ?? "GET";
    const waits = Boolean(call.query?.["index"] || call.query?.["hash"]);
    return this.carrier.send({
      method,
      path: `${pathPrefix}${call.path}${this.#query(call)}`,
      headers,
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      timeoutMs: call.timeoutMs,
      waits,
      // A wait is never repeated as it is: after a broken connection the index may be another Consul's.
      repeatable: (method === "GET" || call.changesNothing === true) && !waits,
      limitBytes: REPLY_LIMIT_BYTES,
      ...(call.signal ? { signal: call.signal } : {}),
    });
  }

  #query(call: ConsulCall): string {
    const { namespace, partition } = this.options;
    const query = { ns: tenancy(namespace), partition: tenancy(partition), ...call.query };
    const parts = Object.entries(query)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    parts.push(...call.flags ?? []);
    return parts.length ? `?${parts.join("&")}` : "";
  }

  #read(call: ConsulCall, wire: WireReply, token: string): ConsulReply {
    const { status, headers, body } = wire;
    const isAbsent = (status === 404 && call.absentIsAnswer === true) ||
      (status === 401 && call.aclsOffIsAnswer === true && /ACL support disabled/.test(body));
    if (status !== 200 && !isAbsent) {
      const { peer, where } = this.carrier;
      throw refusalOf(wire, call, { peer, where, names: this.names, token });
    }
    const index = readIndex(headers["x-consul-index"]);
    const silence = headers["x-consul-lastcontact"];
    if (/^\d{1,15}$/.test(silence ?? "")) this.#deps.onSilence?.(Number(silence));
    const digest = call.lastDigest === undefined ? undefined : digestOf(wire);
    const isSame = digest !== undefined && digest === call.lastDigest;
    const isEmpty = isAbsent || body.length === 0;
    return {
      status,
      ...(index === undefined ? {} : { index }),
      contentHash: headers["x-consul-contenthash"] ?? "",
      filteredByAcls: headers["x-consul-results-filtered-by-acls"] === "true",
      defaultAclPolicy: headers["x-consul-default-acl-policy"] ?? "",
      ...(digest === undefined ? {} : { digest, isSame }),
      json: isSame ? undefined : isEmpty ? null : parseReply(call, body),
    };
  }

  #count({ resource }: ConsulCall, result: string): void {
    const help = "HTTP requests to the agent or the servers that ended, by resource and result";
    this.#deps.stats.counter("agent_requests_total", help, { resource, result }).add(1);
  }
}

function parseReply({ what, path }: ConsulCall, text: string): unknown {
  const invalid = (fact: string) =>
    new ProxyError("agent_reply_invalid", `Cannot ${what}: the reply to ${path} ${fact}`);
  const cost = jsonCost(text);
  if (cost !== undefined) throw invalid(`is refused: ${cost}`);
  try {
    return JSON.parse(text);
  } catch {
    // The engine's own message may quote the reply, which can hold a private key.
    throw invalid(`is not JSON (at byte ${locateJsonError(text)} of ${text.length})`);
  }
}

/** Community Edition refuses even the value `default`, which its own replies are full of. */
function tenancy(name: string): string {
  return name.toLowerCase() === "default" ? "" : name;
}

function digestOf({ status, body }: WireReply): string {
  return `${status} ${createHash("sha256").update(body).digest("base64")}`;
}

function readIndex(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,19}$/.test(text)) return undefined;
  return Math.max(1, Number(text));
}
