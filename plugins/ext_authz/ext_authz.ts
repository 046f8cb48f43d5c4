/**
 * Asks an authorization service whether a request may pass, like Envoy's filter of that name. Without an
 * answer requests are denied, unless the configuration allows them.
 *
 * @module
 */

import type {
  Change,
  Headers,
  Host,
  HttpRequest,
  HttpResponse,
  Next,
  Plugin,
  PluginDefinition,
  RequestArgs,
} from "../../src/plugin/api.ts";
import { ExtAuthzConfig } from "./config.ts";
import { askByGrpc } from "./grpc_service.ts";
import { askByHttp } from "./http_service.ts";
import { denialOf } from "./denial.ts";
import { takeBody } from "./shown_body.ts";
import {
  type AskAuthz,
  type AuthzVerdict,
  errorOf,
  mutated,
  reasonOf,
  type ShownBody,
} from "./verdict.ts";

/** A plugin that holds a request for ten seconds has failed; a request is held for less. */
const HOLD_MS = 9_000;
const BODY_MS = 5_000;

export default {
  name: "ext_authz",
  api: 1,
  phase: "guard",
  config: ExtAuthzConfig,
  async create(host, config): Promise<Plugin> {
    const { httpService, grpcService, withRequestBody } = config;
    const packAsBytes = withRequestBody?.packAsBytes ?? false;
    const ask = httpService
      ? await askByHttp(httpService, host)
      : grpcService && askByGrpc(grpcService, { host, packAsBytes });
    if (!ask) throw new TypeError("there is nobody to ask");
    const timeoutMs = (httpService ?? grpcService)?.timeoutMs ?? 0;
    const guard = new Guard(host, config, {
      ask,
      bodyMs: Math.min(BODY_MS, HOLD_MS - timeoutMs),
    });
    return { onRequest: (args, next) => guard.judge(args, next) };
  },
} satisfies PluginDefinition<typeof ExtAuthzConfig>;

class Guard {
  readonly #host: Host;
  readonly #config: ExtAuthzConfig;
  readonly #ask: AskAuthz;
  readonly #bodyMs: number;
  /** Names of headers that only the authorization service may set. */
  readonly #own: ReadonlySet<string>;
  readonly #none: Headers;
  readonly #counts: ReturnType<typeof countsOf>;

  constructor(host: Host, config: ExtAuthzConfig, { ask, bodyMs }: {
    readonly ask: AskAuthz;
    readonly bodyMs: number;
  }) {
    this.#host = host;
    this.#config = config;
    this.#ask = ask;
    this.#bodyMs = bodyMs;
    this.#own = ownNames(config);
    this.#none = host.reply(200).headers;
    // Invalid names fail while the plugin is loaded.
    this.#none.with({ remove: [...this.#own] });
    this.#counts = countsOf(host);
  }

  async judge(args: RequestArgs, next: Next): Promise<HttpResponse> {
    const { request, exchange: { connection, id, signal } } = args;
    const { withRequestBody } = this.#config;
    let body: ShownBody | null = null;
    let continued = () => request;
    let verdict: AuthzVerdict;
    try {
      // The body of an upgraded request does not end.
      if (withRequestBody && request.body && request.upgrade === "") {
        const taken = await takeBody(request, request.body, {
          limitBytes: withRequestBody.maxRequestBytes,
          allowPartial: withRequestBody.allowPartialMessage,
          timeoutMs: this.#bodyMs,
          clock: this.#host.clock,
        });
        if (taken.kind !== "taken") return this.#unread(request, taken.kind);
        ({ body, continued } = taken);
      }
      verdict = await this.#ask({ request, connection, id, body, signal });
    } catch (error) {
      // The caller's request cannot be sent to the service (an invalid path), or its body broke off.
      verdict = errorOf({ code: NOT_SENT, reason: reasonOf(error) });
    }
    // The caller left, so nothing is sent.
    if (signal.aborted) return this.#host.refuse("denied", "nobody waits for it");
    const outcome = this.#outcomeOf(verdict, continued());
    return "status" in outcome ? outcome : await next(outcome);
  }

  #unread(request: HttpRequest, kind: "too_long" | "too_slow"): HttpResponse {
    this.#counts.requests.add(1, { result: kind });
    const status = kind === "too_long" ? 413 : 408;
    return denialOf({ status, headers: [], body: null }, { request, host: this.#host });
  }

  /** A response to the caller, or the changes of the request that continues. */
  #outcomeOf(verdict: AuthzVerdict, request: HttpRequest): HttpResponse | Change {
    if (verdict.kind === "error") return this.#failed(verdict, request);
    try {
      const outcome = verdict.kind === "ok"
        ? this.#allowed(request, verdict)
        : denialOf(verdict, { request, host: this.#host });
      this.#counts.requests.add(1, { result: verdict.kind });
      return outcome;
    } catch (error) {
      return this.#failed({ code: NOT_APPLIED, reason: reasonOf(error) }, request);
    }
  }

  /** Removes headers of the caller that only the authorization service may set. */
  #allowed(request: HttpRequest, verdict: Extract<AuthzVerdict, { kind: "ok" }>): Change {
    const { request: { headers, remove }, response: mutations } = verdict;
    const cleaned = this.#cleaned(request);
    const changed = mutated(cleaned.headers, headers);
    const present = new Set([...changed].map(([name]) => name));
    const removed = remove.map((name) => name.toLowerCase()).filter((name) => present.has(name));
    const next = cleaned.with({ headers: changed.with({ remove: removed }) });
    if (mutations.length === 0) return { request: next };
    // Invalid mutations throw here, before the request is sent on.
    mutated(this.#none, mutations.map(({ name, value }) => ({ how: "set", name, value })));
    return {
      request: next,
      response: (response) => response.with({ headers: mutated(response.headers, mutations) }),
    };
  }

  #cleaned(request: HttpRequest): HttpRequest {
    // `remove` also removes names that applications may confuse with these.
    return this.#own.size === 0 ? request : request.with({ headers: { remove: [...this.#own] } });
  }

  #failed(
    { code, reason }: { readonly code: string; readonly reason: string },
    request: HttpRequest,
  ): HttpResponse | Change {
    const { failureModeAllow, statusOnError } = this.#config;
    const isLate = code === "response_timed_out";
    this.#counts.requests.add(1, { result: isLate ? "timeout" : "error" });
    this.#host.log.warn("nobody said whether a request may pass", { code, reason });
    // A caller can cause these two failures itself, so they never let a request pass.
    if (failureModeAllow && code !== NOT_SENT && code !== NOT_APPLIED) {
      this.#counts.allowed.add(1);
      return { request: this.#cleaned(request) };
    }
    const denial = { status: statusOnError, headers: [], body: null };
    return denialOf(denial, { request, host: this.#host });
  }
}

/** The codes of a request that cannot be sent to the service, and of an answer that cannot be applied. */
const NOT_SENT = "unasked";
const NOT_APPLIED = "undone";

function countsOf({ stats }: Host) {
  const result = ["ok", "denied", "error", "timeout", "too_long", "too_slow"] as const;
  return {
    requests: stats.counter("requests", {
      help: "Requests that the authorization service was asked about, by result",
      labels: { result },
    }),
    allowed: stats.counter("failure_mode_allowed", {
      help: "Requests let through because the authorization service could not be asked",
    }),
  };
}

/** The caller may send its credentials, even if the service may replace them. */
const CREDENTIALS: ReadonlySet<string> = new Set(["authorization", "cookie"]);

function ownNames({ ownHeaders, httpService }: ExtAuthzConfig): ReadonlySet<string> {
  const set = httpService?.authorizationResponse.allowedUpstreamHeaders ?? [];
  const named = set.flatMap((matcher) => "exact" in matcher ? [matcher.exact.toLowerCase()] : []);
  const names = [...ownHeaders, ...named.filter((name) => !CREDENTIALS.has(name))];
  return new Set(names.map((name) => name.replaceAll("_", "-")));
}
