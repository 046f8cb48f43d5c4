/**
 * Calls to Consul's HTTP API, of an agent or of servers: token, query, JSON, and every status as a code
 * from the error table. The text of Consul's refusals is kept, because it names the right that is missing.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { type ErrorCode, ProxyError, type Stats } from "../../base/mod.ts";
import { jsonCost, locateJsonError } from "../../wire/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../flag_names.ts";
import { hideSecrets } from "../hide_secrets.ts";
import type { CallToken } from "../servers/types.ts";
import type { AnsweringPeer, Carrier, WireReply } from "./carrier.ts";
import { ADDRESS_FLAG } from "./unreachable.ts";
import type { ClusterProof } from "./cluster_proof.ts";

/** Far more than a sidecar's largest reply; a reply beyond it is refused, not kept. */
const REPLY_LIMIT_BYTES = 8 << 20;
const ERROR_TEXT_LIMIT = 500;

export interface ConsulCall {
  /** Label of the request counter: `leaf`. */
  readonly resource: string;
  /** What the caller is after, for messages: `read the leaf of "web"`. */
  readonly what: string;
  readonly method?: "GET" | "PUT" | "POST";
  /** Encoded, without query. */
  readonly path: string;
  /** Empty values are left out. */
  readonly query?: Readonly<Record<string, string>>;
  /** Parameters without a value: `stale`. */
  readonly flags?: readonly string[];
  readonly body?: unknown;
  /** It is a read, whatever its method. */
  readonly changesNothing?: true;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The right it takes, named where Consul does not say it. */
  readonly needs?: string;
  /**
   * Of the reply before, `""`: there is none. The same bytes again are not parsed. Given for what is kept
   * and acted on: an agent's cluster is proved anew for each reply that differs.
   */
  readonly lastDigest?: string;
  /** A 404 is an answer, given with `json: null`. */
  readonly absentIsAnswer?: boolean;
  /** It asks which cluster answers. */
  readonly provesCluster?: true;
  /** That the agent has no ACLs is an answer, given with `json: null`. */
  readonly aclsOffIsAnswer?: boolean;
}

export interface ConsulReply {
  readonly status: number;
  /** `X-Consul-Index`, 0 read as 1; absent where the reply has none. */
  readonly index?: number;
  readonly contentHash: string;
  /** `X-Consul-Results-Filtered-By-Acls`: what is missing is not allowed, rather than not there. */
  readonly filteredByAcls: boolean;
  /** `X-Consul-Default-Acl-Policy`: `acl.default_policy` of whoever answered, ACLs enabled or not. */
  readonly defaultAclPolicy: string;
  /** Of the body, where {@link ConsulCall.lastDigest} was given. */
  readonly digest?: string;
  /** The body is the same as before; `json` is undefined. */
  readonly isSame?: boolean;
  readonly json: unknown;
}

/** What every request carries; empty text means nothing. */
export interface ClientOptions {
  /** Before every path, for an agent behind a reverse proxy: `/consul`. */
  readonly pathPrefix: string;
  /** `user:password`. */
  readonly basicAuth: string;
  readonly datacenter: string;
  /** Reads that allow for it are stale whatever the watch says. */
  readonly stale: boolean;
  readonly namespace: string;
  readonly partition: string;
  /** For messages; absent: those of `postern proxy`. */
  readonly names?: FlagNames;
}

export interface ClientDeps {
  readonly carrier: Carrier;
  readonly token: CallToken;
  readonly stats: Stats;
  /** That it is still our cluster that answers; absent: whoever answers is believed. */
  readonly proof?: Pick<ClusterProof, "confirm" | "doubt">;
  /** Called with each failure, unless it was ours to give up. */
  readonly onFailure?: (code: ErrorCode) => void;
  /** Called when a server says how long it has not heard of its leader (`X-Consul-LastContact`). */
  readonly onSilence?: (silenceMs: number) => void;
}

const ACTIVE = [
  "agent_requests_active",
  "HTTP requests to the agent or the servers under way, those that wait for a change included",
] as const;

export class Client {
  readonly options: ClientOptions;
  readonly carrier: Carrier;
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
    const active = this.#deps.stats.gauge(...ACTIVE);
    active.add(1);
    try {
      // What is written must not reach another cluster.
      if (call.method === "PUT") await this.#deps.proof?.confirm();
      const wire = await this.#send(call, token);
      if (!call.provesCluster) await this.#confirm(call, wire);
      if (isUnknownToken(wire)) this.#deps.token.rejected(token);
      const reply = this.#read(call, wire, token);
      this.#count(call, "ok");
      return reply;
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      // Giving up is our own doing and says nothing about who was asked.
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
    // Behind an agent other servers may answer from one reply to the next, and nothing breaks.
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
      // A wait is never repeated as it is: whoever broke it may count from another index.
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
    const { status, headers } = wire;
    const absent = (status === 404 && call.absentIsAnswer === true) ||
      (status === 401 && call.aclsOffIsAnswer === true && /ACL support disabled/.test(wire.body));
    if (status !== 200 && !absent) throw this.#refusal(call, wire, token);
    const index = readIndex(headers["x-consul-index"]);
    const silence = headers["x-consul-lastcontact"];
    if (silence !== undefined && /^\d{1,15}$/.test(silence)) {
      this.#deps.onSilence?.(Number(silence));
    }
    const digest = call.lastDigest === undefined ? undefined : digestOf(wire);
    const isSame = digest !== undefined && digest === call.lastDigest;
    return {
      status,
      ...(index === undefined ? {} : { index }),
      contentHash: headers["x-consul-contenthash"] ?? "",
      filteredByAcls: headers["x-consul-results-filtered-by-acls"] === "true",
      defaultAclPolicy: headers["x-consul-default-acl-policy"] ?? "",
      ...(digest === undefined ? {} : { digest, isSame }),
      json: this.#json(call, wire, { absent, isSame }),
    };
  }

  #json(
    call: ConsulCall,
    { body }: WireReply,
    { absent, isSame }: { readonly absent: boolean; readonly isSame: boolean },
  ): unknown {
    if (isSame) return undefined;
    return absent || body.length === 0 ? null : this.#parse(call, body);
  }

  #parse(call: ConsulCall, text: string): unknown {
    const cost = jsonCost(text);
    if (cost !== undefined) {
      throw new ProxyError(
        "agent_reply_invalid",
        `Cannot ${call.what}: the reply to ${call.path} is refused: ${cost}`,
      );
    }
    try {
      return JSON.parse(text);
    } catch {
      // The engine's own message may quote the reply, which can hold a private key.
      throw new ProxyError(
        "agent_reply_invalid",
        `Cannot ${call.what}: the reply to ${call.path} is not JSON ` +
          `(at byte ${locateJsonError(text)} of ${text.length})`,
      );
    }
  }

  #refusal(call: ConsulCall, wire: WireReply, token: string): ProxyError {
    const text = oneLine(hideSecrets(wire.body, [token])) || `status ${wire.status}`;
    const what = `Cannot ${call.what}`;
    const { peer, where } = this.carrier;
    switch (wire.status) {
      case 403:
        return new ProxyError(
          "agent_forbidden",
          `${what}: ${text}${this.#forbiddenHint(call, text)}`,
        );
      // What gRPC answers to whoever asks for anything else.
      case 415:
        return new ProxyError(
          "agent_failed",
          `${what}: ${where} speaks gRPC; ${ADDRESS_FLAG[peer]} wants that of the HTTP API`,
        );
      case 404:
        return new ProxyError(
          "agent_not_found",
          isStranger(text)
            ? `${what}: nothing answers to ${call.path} at ${where}: it is no Consul ${peer}, or ` +
              `one that is too old; is ${ADDRESS_FLAG[peer]} right?`
            : `${what}: ${text}`,
        );
    }
    if (wire.status === 429 || (wire.status === 503 && /rate limit exceeded/.test(text))) {
      return new ProxyError("agent_overloaded", `${what}: the ${peer} is overloaded (${text})`);
    }
    const code = /Enterprise feature/.test(text) ? "config_invalid" : "agent_failed";
    const hint = failureHint(text, {
      peer,
      datacenter: call.query?.["dc"] ?? "",
      names: this.names,
    });
    return new ProxyError(code, `${what}: the ${peer} answered ${wire.status}: ${text}${hint}`);
  }

  #forbiddenHint(call: ConsulCall, text: string): string {
    if (call.method === "POST" && /Access is restricted/.test(text)) {
      return ` (the ${this.carrier.peer}'s http_config.allow_write_http_from bars POST from this address; ` +
        `this call changes nothing, but Consul takes it for a write: add this host's address there)`;
    }
    if (UNKNOWN_TOKEN.test(text)) return ` (the ${this.carrier.peer} does not know the token)`;
    if (/anonymous token/.test(text)) return ` (give one with ${this.names.token})`;
    return call.needs && !/lacks permission/.test(text) ? ` (it takes ${call.needs})` : "";
  }

  #count(call: ConsulCall, result: string): void {
    this.#deps.stats.counter(
      "agent_requests_total",
      "HTTP requests to the agent or the servers that ended, by resource and result",
      {
        resource: call.resource,
        result,
      },
    ).add(1);
  }
}

/** Also what a token is answered that has ended. */
function isUnknownToken({ status, body }: WireReply): boolean {
  return status === 403 && UNKNOWN_TOKEN.test(body);
}

/** Other things of ACLs are named behind it. */
const UNKNOWN_TOKEN = /ACL not found(?!: auth method)/;

/** Not what Consul says of something that it does not have. */
function isStranger(text: string): boolean {
  return /^<|^status 404$|^404 page not found|not a recognized HTTP API endpoint/.test(text);
}

/** What to do about a failure, where Consul's own words do not say it. */
function failureHint(
  text: string,
  { peer, datacenter, names }: {
    readonly peer: AnsweringPeer;
    readonly datacenter: string;
    readonly names: FlagNames;
  },
): string {
  if (/HTTP request to an HTTPS server/.test(text)) {
    return peer === "agent"
      ? `; write https:// in ${ADDRESS_FLAG.agent}`
      : "; leave out -tls-disabled, or give the port of its HTTP API with -http-port";
  }
  if (/Connect must be enabled/.test(text)) {
    const where = peer === "agent" ? "the Consul servers and this agent" : "the Consul servers";
    return `; set connect { enabled = true } on ${where}`;
  }
  if (/Enterprise feature/.test(text)) {
    return `; leave out ${names.tenancy}`;
  }
  if (/No path to datacenter/.test(text) && datacenter) {
    return ` ${JSON.stringify(datacenter)}; is that its name, and is it joined?`;
  }
  return "";
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

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- a reply must not forge log lines
  const line = text.replace(/[\x00-\x1f\x7f]+/g, " ").trim();
  return line.length > ERROR_TEXT_LIMIT ? `${line.slice(0, ERROR_TEXT_LIMIT)}...` : line;
}
