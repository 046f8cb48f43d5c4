/**
 * What would become of a request, or of a connection, that came now: every stage is asked as the request
 * itself would ask it, and nothing is sent.
 *
 * @module
 */

import { formatAddress, messageOf } from "../base/mod.ts";
import { DEFAULT_ROUTE } from "../chain/mod.ts";
import {
  addField,
  type Fields,
  isToken,
  isValue,
  REDIRECT,
  replyOf,
  type RequestHead,
} from "../http/mod.ts";
import { formatServiceId, parseServiceId } from "../identity/mod.ts";
import { PluginRequest, type RoutePlan } from "../plugin/mod.ts";
import {
  authorize,
  type Source,
  type TriedPermission,
  type VerifiedClaims,
} from "../policy/mod.ts";
import { type AnyFront, type Explainable, frontOf } from "./asked_front.ts";
import { judgeOfPath } from "./authorize.ts";
import { Exposed } from "./exposed.ts";
import type { Explained, Explanation, Question, SplitView } from "./explanation.ts";
import { limitsOf, routeView, unknownOf } from "./explanation_views.ts";
import { Inbound } from "./inbound.ts";
import { takeForm } from "./l7/request_form.ts";
import { recordOf, verifiedIn } from "./l7/unsent_request.ts";
import { Outbound } from "./outbound.ts";

export async function explain(question: Question, around: Explainable): Promise<Explained> {
  const { method, path, headers } = question;
  let { host } = question;
  if (!isToken(method)) return invalid(`the method ${JSON.stringify(method)} is none`);
  if (!/^\/[^\s#]*$/.test(path) && path !== "*") {
    return invalid(
      `the path ${JSON.stringify(path)} does not begin with /, or has a space or # in it`,
    );
  }
  const fields: Fields = [];
  for (const header of headers) {
    const colon = header.indexOf(":");
    const name = header.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    const value = header.slice(colon + 1).trim();
    // What stands after the colon is nobody's business.
    if (!isToken(name) || !isValue(value)) {
      return invalid(`a header is written "name: value", and one begins ${JSON.stringify(name)}`);
    }
    if (name === "host") host = value;
    else addField(fields, name, value);
  }
  const asked = { ...question, host };
  const found = frontOf(asked, around);
  if ("reason" in found) return found;
  const explanation = await new Explaining(found.front, asked, around).answer(fields);
  return { kind: "answer", explanation };
}

function invalid(reason: string): Explained {
  return { kind: "invalid", reason };
}

type Facts = Partial<Explanation>;

class Explaining {
  readonly #front: AnyFront;
  readonly #question: Question;
  readonly #around: Explainable;

  constructor(front: AnyFront, question: Question, around: Explainable) {
    this.#front = front;
    this.#question = question;
    this.#around = around;
  }

  async answer(fields: Fields): Promise<Explanation> {
    const front = this.#front;
    const { direction, http, name: listener } = front;
    const facts = front.fault !== ""
      ? { verdict: "deny" as const, rule: `every connection is refused: ${front.fault}` }
      : http
      ? await this.#ofRequest(fields)
      : this.#ofConnection();
    const source = front instanceof Inbound
      ? this.#source.uri || "somebody who proved nothing"
      : null;
    return {
      ...{ listener, direction, protocol: http?.protocol ?? "tcp", source },
      ...{ request: null, verdict: "allow", status: 0, rule: "", permissions: [], route: null },
      ...{ plugins: [], splits: [], local: null },
      requestTimeoutMs: http?.requestTimeoutMs ?? 0,
      idleTimeoutMs: http ? http.streamIdleTimeoutMs : front.limits.idleTimeoutMs,
      ...{ limits: null, unknown: [] },
      ...facts,
    };
  }

  /** In the order of `l7/http_exchange.ts`. */
  async #ofRequest(fields: Fields): Promise<Facts> {
    const front = this.#front;
    const listener = front.httpListener;
    if (!listener) return this.#ofConnection();
    const { context } = front;
    const { method, host, path } = this.#question;
    const request: RequestHead = {
      ...{ method, path, authority: host, scheme: "", upgrade: "", fields, version: "HTTP/1.1" },
      ...{ length: 0, saysLength: false, expectsContinue: false },
    };
    const { requestIds: ids } = context;
    const fault = takeForm(request, {
      rules: listener.rules(),
      caller: { isSecure: front.tls !== null, clientCert: "" },
      ids,
      isInbound: front.direction === "inbound",
    });
    const sent = { method: request.method, host: request.authority, path: request.path };
    if (fault) {
      const rule = "reason" in fault ? fault.reason : `it is sent to ${fault.location}`;
      const { status } = "reason" in fault ? replyOf("request_invalid") : REDIRECT;
      return { request: sent, verdict: "deny", status, rule };
    }
    const claims = await verifiedIn(listener, request);
    if (claims === "unknown") {
      const { status } = replyOf("plugin_failed");
      const rule = "its tokens could not be verified";
      return { request: sent, verdict: "deny", status, rule };
    }
    const judged = this.#judged(request, claims);
    if (judged.verdict === "deny") return { request: sent, ...judged };
    const nowhere = (rule: string): Facts => {
      const { status } = replyOf("route_not_found");
      return { request: sent, ...judged, verdict: "deny", status, rule };
    };
    if (method === "CONNECT") return nowhere("CONNECT is sent on to nobody");
    const way = listener.routeOf(request);
    if (!way) return nowhere("no service is here for its host");
    way.changeRequest?.(request.fields, recordOf(request, context));
    const generation = context.facts.plugins?.of(way.plugins ?? front.name);
    let plans: readonly RoutePlan[] = [];
    try {
      plans = generation?.plansOf(new PluginRequest(request, null)) ?? plans;
    } catch (error) {
      const { status } = replyOf("plugin_failed");
      return { request: sent, ...judged, verdict: "deny", status, rule: messageOf(error) };
    }
    const [plan] = plans;
    const plugins = generation?.layersOf(plan) ?? [];
    const unknown = unknownOf(plugins, generation);
    if (generation && !plan) return { ...nowhere("no route takes it"), plugins, unknown };
    const route = plan ? routeView(plan.route) : null;
    const outbound = this.#outbound(way.plugins);
    const splits = this.#splits(outbound, plan?.route.name ?? DEFAULT_ROUTE, (resolver) => {
      const own = plans.find((each) => each.resolver === resolver);
      return own && generation?.asksOf(own);
    });
    const rest = { request: sent, ...judged, route, plugins, unknown, splits };
    return { ...rest, local: this.#local, limits: limitsOf(outbound) };
  }

  #ofConnection(): Facts {
    const outbound = this.#outbound(this.#front.name);
    const generation = this.#front.context.facts.plugins?.of(this.#front.name);
    const { policy } = this.#around.snapshot;
    const rest = {
      ...{ splits: this.#splits(outbound, DEFAULT_ROUTE), limits: limitsOf(outbound) },
      unknown: unknownOf([], generation),
    };
    if (!(this.#front instanceof Inbound)) return rest;
    const { kind: verdict, rule } = authorize(this.#source, policy);
    return { ...rest, ...this.#withAgent(verdict, rule), local: this.#local };
  }

  #judged(
    request: RequestHead,
    claims: VerifiedClaims | undefined,
  ): Pick<Explanation, "verdict" | "status" | "rule" | "permissions"> {
    const front = this.#front;
    const permissions: readonly TriedPermission[] = [];
    if (front instanceof Exposed) {
      const verdict = judgeOfPath(front)(request);
      if ("code" in verdict) {
        const { status } = replyOf(verdict.code);
        return { verdict: "deny", status, rule: verdict.reason, permissions };
      }
      return { verdict: "allow", status: 0, rule: "everybody may call this path", permissions };
    }
    if (!(front instanceof Inbound)) return { verdict: "allow", status: 0, rule: "", permissions };
    const judge = front.context.facts.requestPolicy?.forSource(this.#source);
    if (!judge) {
      const { status } = replyOf("not_ready");
      return { verdict: "deny", status, rule: "no intentions yet", permissions };
    }
    const { kind, rule } = judge.decide(request, claims);
    const status = kind === "deny" ? replyOf("intention_denied").status : 0;
    return { ...this.#withAgent(kind, rule), status, permissions: judge.tried(request, claims) };
  }

  #withAgent(verdict: "allow" | "deny", rule: string): Pick<Explanation, "verdict" | "rule"> {
    const asksAgent = this.#front instanceof Inbound && this.#front.authorizer === "both";
    return {
      verdict,
      rule: asksAgent && verdict === "allow" ? `${rule}, if the agent agrees` : rule,
    };
  }

  #outbound(name: string | undefined): Outbound | undefined {
    const front = this.#around.fronts.get(name ?? "");
    return front instanceof Outbound ? front : undefined;
  }

  get #local(): string | null {
    const front = this.#front;
    const isLocal = front instanceof Inbound || front instanceof Exposed;
    return isLocal ? formatAddress(front.part.local) : null;
  }

  #splits(
    outbound: Outbound | undefined,
    route: string,
    asksOf: (resolver: string) => SplitView["plugins"] | undefined = () => undefined,
  ): SplitView[] {
    const splits = outbound?.upstream.ways.splitsOf(route) ?? [];
    const whole = splits.reduce((sum, { weight }) => sum + weight, 0);
    const nowMs = this.#front.context.clock.monotonic();
    return splits.map(({ weight, resolver, group }) => ({
      chance: weight / whole,
      balancing: group.balancing,
      lack: group.isEmpty ? group.lack : "",
      plugins: asksOf(resolver) ?? {},
      hashedBy: group.needsHash ? this.#hashedBy(outbound, route) : [],
      targets: [...group.targets].map(({ part: { key, connectTimeoutMs, lack }, pool }) => ({
        ...{ target: key, connectTimeoutMs, lack },
        endpoints: pool.views(nowMs),
      })),
    }));
  }

  #hashedBy(outbound: Outbound | undefined, route: string): readonly string[] {
    const chain = this.#around.snapshot.chains[outbound?.upstream.part.chain ?? ""];
    const policies = chain?.routes.find(({ name }) => name === route)?.hash ?? [];
    return policies.map((policy) =>
      policy.kind === "source" ? "source address" : `${policy.kind} ${policy.name}`
    );
  }

  /** A name is that of a service in our own datacenter. */
  get #source(): Source {
    const { snapshot } = this.#around;
    const { source } = this.#question;
    const credentials = this.#front.tls?.credentials ?? null;
    if (source === "") return { id: undefined, uri: "" };
    const own = credentials === null ? null : snapshot.ownCredentials[credentials] ?? null;
    const [trustDomain = ""] = (own ?? snapshot.credentials)?.trustDomains ?? [];
    const uri = source.includes("://") ? source : formatServiceId({
      ...{ trustDomain, partition: "default", namespace: "default" },
      ...{ datacenter: snapshot.datacenter, service: source },
    });
    const parsed = parseServiceId(uri);
    return { id: parsed.kind === "service" ? parsed.id : undefined, uri };
  }
}
