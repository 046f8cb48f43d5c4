/** Explains what would happen now to a request or a connection; nothing is sent. @module */

import { type ErrorCode, formatAddress } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  isToken,
  isValue,
  readRequest,
  REDIRECT,
  type RequestHead,
} from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
import { PluginRequest } from "../../plugin/mod.ts";
import { faultsOfTokens } from "../../policy/mod.ts";
import { authorizeWithAgent, isAllowed } from "../caller/authorize.ts";
import type { ServedListener } from "../listen/listener.ts";
import { type HttpListener, whyNoPlace } from "../service/stages.ts";
import { reachLocal } from "../upstream/probes.ts";
import type { RequestPool } from "../upstream/request_pools.ts";
import type { Upstream } from "../upstream/upstream.ts";
import {
  callerOfQuery,
  clientCertOfQuery,
  type ExplainContext,
  findListener,
} from "./query_subjects.ts";
import { type ExplainedRoute, explainSplits } from "./explain_splits.ts";
import {
  closed,
  dryAnswer,
  type ExplainQuery,
  type ExplainResult,
  type Explanation,
  limitsOf,
  type LocalReply,
  type LocalView,
  NO_FINDINGS,
  ownAnswer,
  routeView,
  sentView,
  unknownOf,
} from "./explanation.ts";
import { UnsentRequest } from "./unsent_request.ts";

export async function explain(
  query: ExplainQuery,
  context: ExplainContext,
): Promise<ExplainResult> {
  const { method, path, headers } = query;
  if (!isToken(method)) return invalid(`the method ${JSON.stringify(method)} is none`);
  if (!/^\S+$/.test(path)) {
    return invalid(`the path ${JSON.stringify(path)} is empty, or has a space in it`);
  }
  const fields = headers.map((header): readonly [name: string, value: string] => {
    const colon = header.indexOf(":");
    return [header.slice(0, Math.max(colon, 0)).toLowerCase(), header.slice(colon + 1).trim()];
  });
  const wrong = fields.find(([name, value]) => !isToken(name) || !isValue(value));
  if (wrong) {
    // The value may be a secret.
    return invalid(`a header is written "name: value", and one begins ${JSON.stringify(wrong[0])}`);
  }
  const hosts = fields.filter(([name]) => name === "host");
  const withHost = { ...query, host: hosts[0]?.[1] ?? query.host };
  const found = findListener(withHost, context);
  if ("reason" in found) return found;
  const { listener } = found;
  const edgeHost = listener.kind === "edge" && query.to.kind === "upstream"
    ? query.to.name
    : undefined;
  const { host = edgeHost ?? listener.destination } = withHost;
  if (hosts.length === 0 && host !== "") fields.unshift(["host", host]);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    ...fields.map(([name, value]) => `${name}: ${value}`),
  ];
  const explanation = await new Explainer(listener, withHost, context).explain(lines);
  return { kind: "answer", explanation };
}

function invalid(reason: string): ExplainResult {
  return { kind: "invalid", reason };
}

/** The findings; absent ones are as in {@link NO_FINDINGS}. */
type Findings = Partial<Explanation>;

class Explainer {
  readonly #listener: ServedListener;
  readonly #query: ExplainQuery;
  readonly #context: ExplainContext;
  readonly #peer: TrustedPeer | undefined;

  constructor(listener: ServedListener, query: ExplainQuery, context: ExplainContext) {
    this.#listener = listener;
    this.#query = query;
    this.#context = context;
    this.#peer = callerOfQuery(query.source, { listener, snapshot: context.snapshot });
  }

  /** `lines`: the head of the request. */
  async explain(lines: readonly string[]): Promise<Explanation> {
    const listener = this.#listener;
    const { direction, http, name, upstream, kind, limits, httpListener } = listener;
    const refusal = this.#beforeService();
    const findings: Findings = refusal
      ? { answer: refusal }
      : httpListener
      ? await this.#request(lines, httpListener)
      : await this.#connection();
    return {
      ...NO_FINDINGS,
      listener: name,
      direction,
      protocol: http?.protocol ?? "tcp",
      source: kind === "inbound" ? this.#peer?.uri || "a caller without a certificate" : null,
      upstream: upstream ? name : null,
      requestTimeoutMs: http?.requestTimeoutMs ?? 0,
      idleTimeoutMs: http ? http.streamIdleTimeoutMs : limits.idleTimeoutMs,
      ...findings,
      unknown: [...findings.unknown ?? [], ...this.#unknownOfCaller(findings)],
    };
  }

  #unknownOfCaller({ permissions = [] }: Findings): readonly string[] {
    const { allowedAddresses } = this.#listener;
    const isByCert = permissions.some(({ text }) => text.includes("x-forwarded-client-cert"));
    return [
      ...(allowedAddresses ? [`Where the caller is: only ${allowedAddresses} may call.`] : []),
      ...(isByCert
        ? ["What x-forwarded-client-cert has besides the URIs: the caller's certificate."]
        : []),
    ];
  }

  /** Why the connection ends before a service gets it; `null`: it does not. */
  #beforeService(): LocalReply | null {
    const listener = this.#listener;
    const { facts, processLimit } = listener.context;
    if (facts.draining) return closed("drained", "the proxy is stopping, and accepts nothing");
    const notBound = this.#context.faultOf(listener.name);
    if (notBound !== "") return closed("listen_failed", `nobody listens there: ${notBound}`);
    if (processLimit.full || listener.places.full) {
      const { code, reason } = listener.whyFull("");
      return closed(code, reason);
    }
    const { tls } = listener;
    if (!tls) return null;
    const fault = facts.trusts.fault(tls.credentials);
    if (fault !== "") return closed("not_ready", `every handshake fails: ${fault}`);
    return listener.kind === "inbound" ? this.#inHandshake(tls.credentials) : null;
  }

  /** Why the caller's certificate is refused. */
  #inHandshake(credentials: string | null): LocalReply | null {
    const { snapshot } = this.#context;
    const own = credentials === null ? undefined : snapshot.ownCredentials[credentials];
    if (own && (own.validation === null || !own.requireClientCertificate)) return null;
    const peer = this.#peer;
    if (!peer) {
      return closed("handshake_failed", "a caller must show a certificate: say which with -source");
    }
    const [, domain] = /^spiffe:\/\/([^/]*)/.exec(peer.uri.toLowerCase()) ?? [];
    const domains = own?.trustDomains ?? snapshot.credentials?.trustDomains ?? [];
    if (own || domain === undefined || domains.includes(domain)) return null;
    const known = domains.join(", ");
    return closed("chain_untrusted", `its trust domain is ${domain}; this proxy trusts ${known}`);
  }

  /** The agent judges the connection before it carries a request. */
  async #request(lines: readonly string[], listener: HttpListener): Promise<Findings> {
    const [refusal, findings] = await Promise.all([
      this.#askAgent(),
      this.#stages(lines, listener),
    ]);
    return refusal ? { request: findings.request ?? null, answer: refusal } : findings;
  }

  /** Why the agent denies the connection; `null`: it does not, or is not asked. */
  #askAgent(): Promise<LocalReply | null> {
    const { context, authorizeMode } = this.#listener;
    const mode = this.#query.connects ? authorizeMode : "nobody";
    return new Promise((resolve) => {
      const end = (code: ErrorCode, reason: string) => resolve(closed(code, reason));
      authorizeWithAgent({ context, peer: this.#peer, end }, mode, () => resolve(null));
    });
  }

  async #stages(lines: readonly string[], listener: HttpListener): Promise<Findings> {
    const { fields } = DEFAULT_HTTP_LIMITS;
    const head = readRequest(lines, { headBytes: listener.rules().headBytes, fields });
    if ("detail" in head) {
      const { status, detail: reason } = head;
      return { answer: { ...closed("request_invalid", reason), status } };
    }
    const request = new UnsentRequest({
      listener,
      head,
      peer: this.#peer,
      caller: {
        isSecure: this.#listener.tls !== null,
        clientCert: clientCertOfQuery(this.#peer, this.#listener),
      },
    });
    let asJudged = sentView(head);
    await request.run((normalized) => asJudged = sentView(normalized));
    const { refusal } = request;
    const answer = refusal
      ? ownAnswer(head, refusal.location === undefined ? refusal.code : REDIRECT, refusal.reason)
      : null;
    const findings: Findings = {
      request: asJudged,
      answer,
      ...(request.isJudged ? this.#judgement(request, answer) : {}),
    };
    return refusal ? findings : await this.#beyondStages(request, findings);
  }

  #judgement(
    { head, claims, refusal, record, tokenFaults: faults }: UnsentRequest,
    answer: LocalReply | null,
  ): Pick<Explanation, "rule" | "permissions" | "tokens"> {
    const { kind, context } = this.#listener;
    const policy = kind === "inbound" ? context.facts.requestPolicy : undefined;
    const permissions = policy?.forSource(this.#peer ?? NO_IDENTITY).tried(head, claims) ?? [];
    const lacks = refusal?.lacks;
    const tokens = lacks ? faultsOfTokens(lacks, { verified: claims, faults }) : [];
    const isDecided = !refusal || refusal.code === "intention_denied" ||
      refusal.reason !== record.rule;
    return { rule: isDecided ? this.#withAgent(record.rule, answer) : "", permissions, tokens };
  }

  #withAgent(rule: string, answer: LocalReply | null): string {
    if (this.#listener.authorizeMode !== "both" || answer) return rule;
    return this.#query.connects ? `${rule}, and the agent agrees` : `${rule}, if the agent agrees`;
  }

  /** Plugins, splits and endpoints of a request that no stage refused. */
  async #beyondStages(request: UnsentRequest, judged: Findings): Promise<Findings> {
    const { head, generation, value, route, listener } = request;
    const run = (split: number) => generation?.dryRun(new PluginRequest(head, null), value, split);
    const first = run(0);
    const [plan] = first?.plans ?? [];
    const plugins = generation?.layersOf(plan) ?? [];
    const findings: Findings = {
      ...judged,
      plugins,
      unknown: unknownOf(plugins, generation, this.#targetsOf(route)),
      route: plan ? routeView(plan.route) : null,
    };
    const nowhere = (reason: string) => ownAnswer(head, "route_not_found", reason);
    const answered = first?.answer && dryAnswer(head, first.answer);
    if (first && !plan) return { ...findings, answer: answered ?? nowhere("no route takes it") };
    const name = plan?.route.name ?? DEFAULT_ROUTE;
    const outbound = this.#context.listeners.get(route?.plugins ?? "");
    if (!outbound?.upstream) {
      const pool = route?.poolFor(name, plan?.resolver);
      const sent = first ? first.sent : head;
      return { ...findings, ...await this.#toLocal(sent, { answered, pool, request, listener }) };
    }
    const splits = await explainSplits(
      this.#routeOf(outbound, outbound.upstream, name),
      (resolver) => {
        const at = first?.plans.findIndex((each) => each.resolver === resolver) ?? 0;
        const split = Math.max(at, 0);
        const dry = split === 0 ? first : run(split);
        return {
          request: head,
          asks: dry?.plan && generation?.splitConfigsOf(dry.plan),
          pool: route?.poolFor(name, resolver),
          answer: dry?.answer && dryAnswer(head, dry.answer),
          sent: dry ? dry.sent : head,
        };
      },
    );
    const upstream = outbound.name;
    if (splits.length === 0) {
      return { ...findings, upstream, answer: nowhere(`the route ${name} leads nowhere`) };
    }
    const limits = limitsOf(outbound.upstream);
    return { ...findings, upstream, splits, answer: sameOf(splits), limits };
  }

  /** Ids of the targets that a plugin may choose. */
  #targetsOf(route: UnsentRequest["route"]): readonly string[] {
    const groups = this.#context.listeners.get(route?.plugins ?? "")?.upstream?.groups ?? [];
    const keys = [...groups].flatMap(({ targets }) => [...targets].map(({ part }) => part.key));
    return [...new Set(keys)].map((key) => key.slice(key.indexOf("#") + 1));
  }

  async #connection(): Promise<Findings> {
    const { context, name, upstream, kind } = this.#listener;
    const unknown = unknownOf([], context.facts.plugins?.of(name));
    if (kind === "inbound") {
      const judged = this.#judgeConnection();
      if (judged.answer) return { ...judged, unknown };
      const [refusal, local] = await Promise.all([this.#askAgent(), this.#toLocal(undefined, {})]);
      return refusal ? { answer: refusal, unknown } : { ...judged, unknown, ...local };
    }
    if (!upstream) return { unknown };
    const splits = await explainSplits(this.#routeOf(this.#listener, upstream, DEFAULT_ROUTE));
    const answer = splits.length === 0
      ? closed("no_endpoint", "its chain leads nowhere")
      : sameOf(splits);
    return { unknown, splits, answer, limits: limitsOf(upstream) };
  }

  #routeOf({ context }: ServedListener, upstream: Upstream, route: string): ExplainedRoute {
    const { snapshot: { chains } } = this.#context;
    return { upstream, route, context, chains, connects: this.#query.connects };
  }

  #judgeConnection(): Pick<Explanation, "answer" | "rule"> {
    const { context, authorizeMode } = this.#listener;
    let answer: LocalReply | null = null;
    const record = { rule: "" };
    const end = (code: ErrorCode, reason: string) => void (answer = closed(code, reason));
    isAllowed({ context, peer: this.#peer, record, end }, authorizeMode);
    return { answer, rule: this.#withAgent(record.rule, answer) };
  }

  /** `sent`: `undefined` if bytes are carried, or a plugin `answered`. */
  async #toLocal(sent: RequestHead | undefined, { answered, pool, request, listener }: {
    readonly answered?: LocalReply | undefined;
    readonly pool?: RequestPool | undefined;
    readonly request?: UnsentRequest;
    readonly listener?: HttpListener;
  }): Promise<Findings> {
    const { part, context } = this.#listener;
    const { local: address, localConnectTimeoutMs: timeoutMs = 0 } = part;
    if (!address) return {};
    const local: LocalView = {
      address: formatAddress(address),
      sent: sent ? sentView(sent) : null,
    };
    if (answered) return { answer: answered };
    const fail = (code: ErrorCode, reason: string) =>
      sent && listener ? ownAnswer(sent, code, reason) : closed(code, reason);
    if (pool) {
      const key = request?.callerKey ?? "";
      const refusal = whyNoPlace(pool, key);
      if (refusal) return { answer: fail(refusal.code, refusal.reason) };
      pool.leave(key);
    }
    if (!this.#query.connects) {
      return { local, unknown: ["Whether the application takes connections was not tried."] };
    }
    const failure = await reachLocal(address, { context, timeoutMs });
    return { local, answer: failure ? fail(failure.code, failure.reason) : null };
  }
}

const NO_IDENTITY = { id: undefined, uri: "" };

/** `null`: some go on, or their answers differ. */
function sameOf(splits: Explanation["splits"]): LocalReply | null {
  const [first, ...others] = splits.map(({ answer }) => answer);
  if (!first) return null;
  return others.every((other) => other?.status === first.status) ? first : null;
}
