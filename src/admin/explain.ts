/**
 * `/explain`: what would become of a request, or of a connection, that came now: which rule decides about
 * it, and who would be dialled. Nothing is sent; it is asked of the state in force.
 *
 * @module
 */

import { prepareRegexes } from "../base/mod.ts";
import { addField, type Fields, HostTable, normalizePath, UNKNOWN_LENGTH } from "../http/mod.ts";
import { formatServiceId, parseServiceId } from "../identity/mod.ts";
import { authorize, compilePolicy, policyNeedsRegexes, type Source } from "../policy/mod.ts";
import type {
  EdgePart,
  ExposedPart,
  HttpRules,
  InboundPart,
  Snapshot,
  UpstreamPart,
} from "../snapshot/mod.ts";
import { targetKeysOf } from "../snapshot/mod.ts";

/** Who asks whom for what; what is not said is as simple as it can be. */
export interface Question {
  /** Name of the listener; absent: the first for callers of the service. */
  readonly listener?: string | undefined;
  /** Name of a service, or the URI of a certificate; `""`: somebody who proved nothing. */
  readonly source: string;
  readonly method: string;
  /** Host, and port where there is one; `""`: none. */
  readonly host: string;
  /** As a client would write it. */
  readonly path: string;
  /** `name: value` each. */
  readonly headers: readonly string[];
}

export type Answer =
  | { readonly kind: "answer"; readonly answer: Readonly<Record<string, unknown>> }
  | { readonly kind: "unknown"; readonly reason: string };

export async function explain(snapshot: Snapshot, question: Question): Promise<Answer> {
  const { inbound: inbounds, exposed: paths, edges, upstreams } = snapshot;
  const names = [inbounds, paths, edges, upstreams].flatMap((parts) => Object.keys(parts));
  const { listener = names[0] ?? "" } = question;
  const inbound = inbounds[listener];
  if (inbound) return answer(listener, inbound, await ofInbound(snapshot, inbound, question));
  const exposed = paths[listener];
  if (exposed) return answer(listener, exposed, ofExposed(exposed, question));
  const edge = edges[listener];
  if (edge) return answer(listener, edge, ofEdge(snapshot, edge, question));
  const upstream = upstreams[listener];
  if (upstream) return answer(listener, upstream, ofUpstream(snapshot, upstream, question));
  const known = names.length === 0 ? "there is none" : `there is: ${names.join(" ")}`;
  return { kind: "unknown", reason: `there is no listener "${listener}"; ${known}` };
}

function answer(
  listener: string,
  { http }: { readonly http: HttpRules | null },
  facts: Readonly<Record<string, unknown>>,
): Answer {
  const protocol = http?.protocol ?? "tcp";
  return { kind: "answer", answer: { listener, protocol, ...facts } };
}

async function ofInbound(
  snapshot: Snapshot,
  part: InboundPart,
  question: Question,
): Promise<Readonly<Record<string, unknown>>> {
  const { policy } = snapshot;
  const source = sourceOf(snapshot, part, question.source);
  const facts = {
    source: source.uri || "somebody who proved nothing",
    ...part.authorize === "both" && { agent: "is asked, too" },
  };
  if (!part.http) {
    const { kind, rule } = authorize(source, policy);
    return { ...facts, verdict: kind, rule };
  }
  const asked = requestOf(part.http, question);
  if (asked.kind === "refused") return { ...facts, ...asked.facts };
  if (policyNeedsRegexes(policy)) await prepareRegexes();
  const { kind, rule } = compilePolicy(policy).forSource(source).decide(asked.request);
  return { ...facts, ...asked.facts, verdict: kind, rule };
}

function ofExposed(part: ExposedPart, question: Question): Readonly<Record<string, unknown>> {
  const asked = requestOf(part.http, question);
  if (asked.kind === "refused") return asked.facts;
  const [path] = asked.request.path.split("?");
  return path === part.path
    ? { ...asked.facts, verdict: "allow", rule: `everybody may call ${part.path}` }
    : { ...asked.facts, verdict: "deny", status: 404, rule: `only ${part.path} is there` };
}

function ofEdge(
  snapshot: Snapshot,
  { hosts, http, bind }: EdgePart,
  question: Question,
): Readonly<Record<string, unknown>> {
  const { host } = question;
  const table = new HostTable(
    hosts.flatMap(({ names, upstream }) => names.map((name) => [name, upstream] as const)),
    bind.port,
  );
  const upstream = snapshot.upstreams[table.find(host) ?? ""];
  if (upstream) return { host, ...ofUpstream(snapshot, { ...upstream, http }, question) };
  return { host, verdict: "deny", status: 404, rule: "nobody has this host" };
}

function ofUpstream(
  snapshot: Snapshot,
  part: UpstreamPart,
  question: Question,
): Readonly<Record<string, unknown>> {
  const asked = part.http ? requestOf(part.http, question) : undefined;
  if (asked?.kind === "refused") return asked.facts;
  const targets = targetKeysOf(snapshot.chains[part.chain]).map((key) => {
    const { endpoints = [], lastResort = [], lack = "" } = snapshot.targets[key] ?? {};
    return {
      target: key,
      endpoints: endpoints.length,
      ...lastResort.length > 0 && { last_resort: lastResort.length },
      ...lack !== "" && { lack },
    };
  });
  return { ...asked?.facts, destination: part.name, targets };
}

/** A name is that of a service in our own datacenter. */
function sourceOf(snapshot: Snapshot, { credentials }: InboundPart, text: string): Source {
  if (text === "") return { id: undefined, uri: "" };
  const own = credentials === null ? null : snapshot.ownCredentials[credentials] ?? null;
  const [trustDomain = ""] = (own ?? snapshot.credentials)?.trustDomains ?? [];
  const uri = text.includes("://") ? text : formatServiceId({
    trustDomain,
    partition: "default",
    namespace: "default",
    datacenter: snapshot.datacenter,
    service: text,
  });
  const parsed = parseServiceId(uri);
  return { id: parsed.kind === "service" ? parsed.id : undefined, uri };
}

interface AskedRequest {
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  readonly path: string;
  readonly upgrade: string;
  readonly length: number;
  readonly saysLength: boolean;
  readonly fields: Fields;
}

type Asked =
  | {
    readonly kind: "request";
    readonly request: AskedRequest;
    readonly facts: Readonly<Record<string, unknown>>;
  }
  | { readonly kind: "refused"; readonly facts: Readonly<Record<string, unknown>> };

/** The request as it would be judged and sent on. */
function requestOf(rules: HttpRules, { method, host, path: written, headers }: Question): Asked {
  const path = normalizePath(written, rules.path);
  if (typeof path !== "string") {
    const { status } = path;
    const rule = status === 400
      ? "the mesh's rules for paths refuse it"
      : `the mesh's rules for paths send it to ${path.location}`;
    return { kind: "refused", facts: { method, path: written, verdict: "deny", status, rule } };
  }
  const fields: Fields = [];
  for (const header of headers) {
    const colon = header.indexOf(":");
    const name = colon < 0 ? header : header.slice(0, colon);
    addField(fields, name.trim().toLowerCase(), colon < 0 ? "" : header.slice(colon + 1).trim());
  }
  const rest = { scheme: "https", authority: host, upgrade: "", length: UNKNOWN_LENGTH };
  const request = { method, path, ...rest, saysLength: false, fields };
  return { kind: "request", request, facts: { method, path } };
}
