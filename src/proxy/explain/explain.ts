/**
 * What would become of a request, or of a connection, that came now: every stage is asked as the request
 * itself would ask it, and nothing is sent.
 *
 * @module
 */

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
import { faultsOfTokens, type VerifiedClaims } from "../../policy/mod.ts";
import { callerOfQuery, clientCertOfQuery } from "./caller_of_query.ts";
import type { ServedListener } from "../listen/listener.ts";
import { type ExplainContext, findListener } from "./find_listener.ts";
import {
  authorizeWithAgent,
  isAllowed,
  judgeOfPath,
  judgeOfRequests,
} from "../caller/authorize.ts";
import { EdgeListener } from "../listen/edge_listener.ts";
import { callerKey } from "../caller/session.ts";
import { ExposedListener } from "../listen/exposed_listener.ts";
import type {
  ExplainQuery,
  ExplainResult,
  Explanation,
  LocalReply,
  LocalView,
} from "./explanation.ts";
import {
  closed,
  dryAnswer,
  limitsOf,
  ownAnswer,
  routeView,
  sentView,
  unknownOf,
} from "./explanation_views.ts";
import { SplitExplainer } from "./explain_splits.ts";
import { InboundListener } from "../listen/inbound_listener.ts";
import type { HttpListener } from "../service/http_listener.ts";
import type { RequestPool } from "../upstream/request_pools.ts";
import { takeForm } from "../service/request_form.ts";
import { unsentExchange, verifiedIn } from "./unsent_request.ts";
import { OutboundListener } from "../listen/outbound_listener.ts";
import { reachLocal } from "../upstream/probe_endpoint.ts";

export async function explain(
  question: ExplainQuery,
  around: ExplainContext,
): Promise<ExplainResult> {
  const { method, path, headers } = question;
  if (!isToken(method)) return invalid(`the method ${JSON.stringify(method)} is none`);
  if (!/^\S+$/.test(path)) {
    return invalid(`the path ${JSON.stringify(path)} is empty, or has a space in it`);
  }
  const fields: (readonly [name: string, value: string])[] = [];
  for (const header of headers) {
    const colon = header.indexOf(":");
    const name = header.slice(0, Math.max(colon, 0)).toLowerCase();
    const value = header.slice(colon + 1).trim();
    // The value may be a secret.
    if (!isToken(name) || !isValue(value)) {
      return invalid(`a header is written "name: value", and one begins ${JSON.stringify(name)}`);
    }
    fields.push([name, value]);
  }
  const hosts = fields.filter(([name]) => name === "host");
  const asked = { ...question, host: hosts[0]?.[1] ?? question.host };
  const found = findListener(asked, around);
  if ("reason" in found) return found;
  const { front } = found;
  const named = front instanceof EdgeListener && asked.to.kind === "upstream"
    ? asked.to.name
    : undefined;
  const { host = named ?? front.destination } = asked;
  const said = hosts.length > 0 || host === "" ? [] : [["host", host] as const];
  const lines = [
    `${method} ${path} HTTP/1.1`,
    ...[...said, ...fields].map(([name, value]) => `${name}: ${value}`),
  ];
  const explanation = await new Explaining(front, asked, around).answer(lines);
  return { kind: "answer", explanation };
}

function invalid(reason: string): ExplainResult {
  return { kind: "invalid", reason };
}

/** What is found out on the way; what is missing is as in {@link NOTHING}. */
type Facts = Partial<Explanation>;

const NOTHING = {
  ...{
    request: null,
    upstream: null,
    answer: null,
    rule: "",
    permissions: [],
    tokens: [],
    route: null,
  },
  ...{ plugins: [], splits: [], local: null, limits: null, unknown: [] },
} satisfies Facts;

class Explaining {
  readonly #front: ServedListener;
  readonly #question: ExplainQuery;
  readonly #around: ExplainContext;
  readonly #peer: TrustedPeer | undefined;

  constructor(front: ServedListener, question: ExplainQuery, around: ExplainContext) {
    this.#front = front;
    this.#question = question;
    this.#around = around;
    this.#peer = callerOfQuery(question.source, { front, snapshot: around.snapshot });
  }

  /** `lines`: of the request's head. */
  async answer(lines: readonly string[]): Promise<Explanation> {
    const front = this.#front;
    const { direction, http, name: listener } = front;
    const refusal = this.#atTheDoor();
    const facts: Facts = refusal
      ? { answer: refusal }
      : front.httpListener
      ? await this.#ofRequestWithAgent(lines, front.httpListener)
      : await this.#ofConnection();
    const source = front instanceof InboundListener
      ? this.#peer?.uri || "a caller without a certificate"
      : null;
    return {
      ...NOTHING,
      ...{ listener, direction, protocol: http?.protocol ?? "tcp", source },
      upstream: front instanceof OutboundListener ? listener : null,
      requestTimeoutMs: http?.requestTimeoutMs ?? 0,
      idleTimeoutMs: http ? http.streamIdleTimeoutMs : front.limits.idleTimeoutMs,
      ...facts,
      unknown: [...facts.unknown ?? [], ...this.#unknownOfCaller(facts)],
    };
  }

  #unknownOfCaller({ permissions = [] }: Facts): readonly string[] {
    const callers = this.#front instanceof ExposedListener ? this.#front.allowedAddresses : "";
    const isCertJudged = permissions.some(({ text }) => text.includes("x-forwarded-client-cert"));
    return [
      ...callers === "" ? [] : [`Where the caller is: only ${callers} may call.`],
      ...isCertJudged
        ? ["What x-forwarded-client-cert has besides the URIs: the caller's certificate."]
        : [],
    ];
  }

  /** Why its connection does not get as far as to carry a request. */
  #atTheDoor(): LocalReply | null {
    const front = this.#front;
    const { facts, processLimit } = front.context;
    if (facts.draining) return closed("drained", "the proxy is stopping, and accepts nothing");
    const notBound = this.#around.faultOf(front.name);
    if (notBound !== "") return closed("listen_failed", `nobody listens there: ${notBound}`);
    if (processLimit.full || front.places.full) {
      const { code, reason } = front.whyFull("");
      return closed(code, reason);
    }
    const { tls } = front;
    if (!tls) return null;
    const fault = facts.trusts.fault(tls.credentials);
    if (fault !== "") return closed("not_ready", `every handshake fails: ${fault}`);
    return front instanceof InboundListener ? this.#inTheHandshake(tls.credentials) : null;
  }

  /** Why its caller's certificate is refused. */
  #inTheHandshake(credentials: string | null): LocalReply | null {
    const { snapshot } = this.#around;
    const own = credentials === null ? undefined : snapshot.ownCredentials[credentials];
    if (own && (own.validation === null || !own.requireClientCertificate)) return null;
    const source = this.#peer;
    if (!source) {
      return closed("handshake_failed", "a caller must show a certificate: say which with -source");
    }
    const [, domain] = /^spiffe:\/\/([^/]*)/.exec(source.uri.toLowerCase()) ?? [];
    const domains = own?.trustDomains ?? snapshot.credentials?.trustDomains ?? [];
    if (own || domain === undefined || domains.includes(domain)) return null;
    const known = domains.join(", ");
    return closed("chain_untrusted", `its trust domain is ${domain}; this proxy trusts ${known}`);
  }

  /** As `l7/http_service.ts` has it: the agent judges the connection before it carries a request. */
  async #ofRequestWithAgent(lines: readonly string[], listener: HttpListener): Promise<Facts> {
    const [refusal, facts] = await Promise.all([
      this.#askAgent(),
      this.#ofRequest(lines, listener),
    ]);
    return refusal ? { request: facts.request ?? null, answer: refusal } : facts;
  }

  /** Why the agent does not let the connection in; `null`: it does, or is not to be asked. */
  #askAgent(): Promise<LocalReply | null> {
    const front = this.#front;
    return new Promise((resolve) => {
      authorizeWithAgent(
        {
          context: front.context,
          peer: this.#peer,
          end: (code, reason) => resolve(closed(code, reason)),
        },
        front instanceof InboundListener && this.#question.connects
          ? front.authorizeMode
          : "nobody",
        () => resolve(null),
      );
    });
  }

  /** In the order of `l7/http_exchange.ts`. */
  async #ofRequest(lines: readonly string[], listener: HttpListener): Promise<Facts> {
    const front = this.#front;
    const { context } = front;
    const rules = listener.rules();
    const { fields } = DEFAULT_HTTP_LIMITS;
    const request = readRequest(lines, { headBytes: rules.headBytes, fields });
    if ("detail" in request) {
      const { status, detail: reason } = request;
      return { answer: { ...closed("request_invalid", reason), status } };
    }
    const ended = (code: ErrorCode, reason: string) => ownAnswer(request, code, reason);
    const fault = takeForm(request, {
      rules,
      caller: {
        isSecure: front.tls !== null,
        clientCert: clientCertOfQuery(this.#peer, front),
      },
      ids: context.requestIds,
      isInbound: front.direction === "inbound",
    });
    const asJudged = sentView(request);
    if (fault && "reason" in fault) {
      return { request: asJudged, answer: ended("request_invalid", fault.reason) };
    }
    if (fault) {
      const reason = `the path is redirected to ${fault.location}`;
      return { request: asJudged, answer: ownAnswer(request, REDIRECT, reason) };
    }
    const verified = await verifiedIn(listener, request);
    if (verified === "unknown") {
      const answer = ended("plugin_failed", "its tokens could not be verified");
      return { request: asJudged, answer };
    }
    const judged = { request: asJudged, ...this.#judged(request, verified) };
    if (judged.answer) return judged;
    const nowhere = (reason: string): Facts => ({
      ...judged,
      answer: ended("route_not_found", reason),
    });
    if (request.method === "CONNECT") return nowhere("CONNECT is not supported");
    const way = listener.routeOf(request);
    if (!way) return nowhere("no service is here for its host");
    const exchange = unsentExchange(listener, request);
    way.changeRequest?.(request.fields, exchange.record);
    const generation = context.facts.plugins?.of(way.plugins ?? front.name);
    const run = (split: number) =>
      generation?.dryRun(new PluginRequest(request, null), exchange.value, split);
    const first = run(0);
    const [plan] = first?.plans ?? [];
    const plugins = generation?.layersOf(plan) ?? [];
    const rest = {
      ...{ ...judged, plugins, unknown: unknownOf(plugins, generation) },
      route: plan ? routeView(plan.route) : null,
    };
    const answered = first?.answer && dryAnswer(request, first.answer);
    if (first && !plan) {
      return answered
        ? { ...rest, answer: answered }
        : { ...nowhere("no route takes it"), ...rest };
    }
    const name = plan?.route.name ?? DEFAULT_ROUTE;
    const outbound = this.#outbound(way.plugins);
    if (!outbound) {
      const to = way.poolFor(name, plan?.resolver);
      const sent = first ? first.sent : request;
      return { ...rest, ...await this.#toLocal(sent, { answered, to, listener }) };
    }
    const explainer = new SplitExplainer(outbound, this.#around, this.#question.connects);
    const splits = await explainer.splits(name, (resolver) => {
      const split = Math.max(first?.plans.findIndex((each) => each.resolver === resolver) ?? 0, 0);
      const dry = split === 0 ? first : run(split);
      const to = way.poolFor(name, resolver);
      const asks = dry?.plan && generation?.asksOf(dry.plan);
      const answer = dry?.answer && dryAnswer(request, dry.answer);
      return { request, asks, to, answer, sent: dry ? dry.sent : request };
    });
    const upstream = outbound.name;
    const where = { ...rest, upstream };
    if (splits.length === 0) return { ...nowhere(`the route ${name} leads nowhere`), ...where };
    return { ...where, splits, answer: sameOf(splits), limits: limitsOf(outbound) };
  }

  async #ofConnection(): Promise<Facts> {
    const front = this.#front;
    const generation = front.context.facts.plugins?.of(front.name);
    const unknown = unknownOf([], generation);
    if (front instanceof InboundListener) {
      const judged = this.#judgedConnection(front);
      if (judged.answer) return { ...judged, unknown };
      const [refusal, local] = await Promise.all([this.#askAgent(), this.#toLocal(undefined, {})]);
      return refusal ? { answer: refusal, unknown } : { ...judged, unknown, ...local };
    }
    if (!(front instanceof OutboundListener)) return { unknown };
    const explainer = new SplitExplainer(front, this.#around, this.#question.connects);
    const splits = await explainer.splits(DEFAULT_ROUTE);
    const answer = splits.length === 0
      ? closed("no_endpoint", "its chain leads nowhere")
      : sameOf(splits);
    return { unknown, splits, answer, limits: limitsOf(front) };
  }

  #judgedConnection(front: InboundListener): Pick<Explanation, "answer" | "rule"> {
    let answer: LocalReply | null = null;
    const record = { rule: "" };
    isAllowed({
      ...{ context: front.context, peer: this.#peer, record },
      end: (code, reason) => void (answer = closed(code, reason)),
    }, front.authorizeMode);
    return { answer, rule: this.#withAgent(record.rule, answer) };
  }

  #judged(
    request: RequestHead,
    verified: Exclude<Awaited<ReturnType<typeof verifiedIn>>, "unknown">,
  ): Pick<Explanation, "answer" | "rule" | "permissions" | "tokens"> {
    const front = this.#front;
    const { context } = front;
    const peer = this.#peer;
    const judge = front instanceof ExposedListener ? judgeOfPath(front) : judgeOfRequests(
      { context, peer, record: { rule: "" } },
      front instanceof InboundListener ? front.authorizeMode : "nobody",
    );
    const claims: VerifiedClaims | undefined = verified?.claims;
    const verdict = judge(request, claims);
    const isAllowed = !("code" in verdict);
    const answer = isAllowed ? null : ownAnswer(request, verdict.code, verdict.reason);
    const rule = isAllowed
      ? verdict.rule
      : verdict.code === "intention_denied"
      ? verdict.reason
      : "";
    const policy = front instanceof InboundListener ? context.facts.requestPolicy : undefined;
    const permissions = policy?.forSource(peer ?? NOBODY).tried(request, claims) ?? [];
    const lacks = isAllowed ? undefined : verdict.lacks;
    const tokens = lacks
      ? faultsOfTokens(lacks, { verified: claims, faults: verified?.faults })
      : [];
    return { answer, rule: this.#withAgent(rule, answer), permissions, tokens };
  }

  #withAgent(rule: string, answer: LocalReply | null): string {
    const asksAgent = this.#front instanceof InboundListener &&
      this.#front.authorizeMode === "both";
    if (!asksAgent || answer) return rule;
    return this.#question.connects
      ? `${rule}, and the agent agrees`
      : `${rule}, if the agent agrees`;
  }

  /** `sent`: `undefined` where bytes are carried, or where a plugin `answered`. */
  async #toLocal(sent: RequestHead | undefined, { answered, to, listener }: {
    readonly answered?: LocalReply | undefined;
    readonly to?: RequestPool | undefined;
    readonly listener?: HttpListener;
  }): Promise<Facts> {
    const front = this.#front;
    if (!(front instanceof InboundListener || front instanceof ExposedListener)) return {};
    const { local: address, localConnectTimeoutMs: timeoutMs } = front.part;
    const local: LocalView = {
      address: formatAddress(address),
      sent: sent ? sentView(sent) : null,
    };
    if (answered) return { answer: answered };
    const fail = (code: ErrorCode, reason: string) =>
      sent && listener ? ownAnswer(sent, code, reason) : closed(code, reason);
    // A caller without a certificate may have any address.
    const caller = this.#peer ? callerKey(front, this.#peer, "") : "";
    if (to && !to.enter(caller)) return { answer: fail("limit_reached", to.whyFull()) };
    to?.leave(caller);
    if (!this.#question.connects) {
      return { local, unknown: ["Whether the application takes connections was not tried."] };
    }
    const reached = await reachLocal(address, { context: front.context, timeoutMs });
    return { local, answer: reached ? fail(reached.code, reached.reason) : null };
  }

  #outbound(name: string | undefined): OutboundListener | undefined {
    const front = this.#around.fronts.get(name ?? "");
    return front instanceof OutboundListener ? front : undefined;
  }
}

const NOBODY = { id: undefined, uri: "" };

/** `null`: some go on, or their answers differ. */
function sameOf(splits: Explanation["splits"]): LocalReply | null {
  const [first, ...others] = splits.map(({ answer }) => answer);
  if (!first) return null;
  return others.every((other) => other?.status === first.status) ? first : null;
}
